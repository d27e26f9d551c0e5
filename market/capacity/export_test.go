package capacity

// From returns the step that wrote what another reads.
func From(t *Trace, step int) int { return t.from[step] }
