package doc

// Nearest returns the candidate that a mistyped word most likely meant, or "". The first of equals wins.
func Nearest(word string, candidates []string) string {
	best, within := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		if max(len(word)-len(c), len(c)-len(word)) >= within {
			continue // so many letters are too many or missing; a long word costs nothing
		}
		if d := distance(word, c, within); d < within {
			best, within = c, d
		}
	}
	return best
}

// distance is the edit distance of two words: insertions, deletions, substitutions. Where it is not under a bound it may
// return the bound.
func distance(a, b string, bound int) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = min(diagonal, row[j], row[j+1]) + 1
			}
			diagonal, row[j+1] = row[j+1], cost
			least = min(least, cost)
		}
		if least >= bound {
			return bound
		}
	}
	return row[len(b)]
}
