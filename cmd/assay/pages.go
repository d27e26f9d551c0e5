package main

// pages reads a list to its end. next returns the items of the page that begins after an id, and where the one after it
// begins; an empty id: at the first item, or nowhere. The list is never nil, so that an empty one is [] in JSON.
func pages[T any](next func(after string) ([]T, string, error)) ([]T, error) {
	all := []T{}
	for after := ""; ; {
		items, end, err := next(after)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if after = end; after == "" {
			return all, nil
		}
	}
}
