package audit

// Shares and DrawNumbers let tests pin how a sample is drawn.
var Shares = shares

func DrawNumbers(seed int64, stratum string, n, take int64) (numbers []int64) {
	for _, d := range draw(seed, stratum, n, take) {
		numbers = append(numbers, d.Number)
	}
	return numbers
}
