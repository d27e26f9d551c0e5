package device

const (
	MaxTries     = 5       // takes of one report before a race is given up
	MaxAttribute = 1 << 20 // bytes read from one attribute
	MaxText      = 128     // bytes of a text attribute or of the boot id
)
