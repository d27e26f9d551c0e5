package attest

// Unverified is a decoded value that no signature vouches for yet, with the received bytes that a signature must cover.
type Unverified[T any] struct {
	value             T
	message, received []byte
}

// NewUnverified wraps a decoded value, the received bytes that are signed, and the received signature.
func NewUnverified[T any](value T, message, signature []byte) Unverified[T] {
	return Unverified[T]{value, message, signature}
}

// Peek returns the value to explain or contradict something with. It must never affirm.
func (u Unverified[T]) Peek() T { return u.value }

// Verify returns the value if check accepts the signature over the received bytes.
func (u Unverified[T]) Verify(check func(message, signature []byte) bool) (T, bool) {
	if !check(u.message, u.received) {
		var none T
		return none, false
	}
	return u.value, true
}
