package doc

// TypeOf returns the "type" of a document, by which a reader of several kinds chooses what to decode it into.
func TypeOf(name string, data []byte) (string, error) {
	root, err := parse(name, data)
	if err != nil {
		return "", Errors{err}
	}
	if root.kind != object {
		return "", Errors{fault(name, root.at, "want an object with a type, got %s", root.kind)}
	}
	t := root.child("type")
	if t == nil {
		return "", Errors{fault(name, root.at, `no key "type"`)}
	}
	if t.kind != text {
		return "", Errors{fault(name, t.at, "type: want text, got %s", t.kind)}
	}
	return t.value, nil
}
