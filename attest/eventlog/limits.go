package eventlog

// Limits on logs.
const (
	MaxLog      = 1 << 20  // bytes of a TCG log
	MaxEvents   = 16 << 10 // events of a TCG log
	MaxIMAList  = 32 << 20 // bytes of an IMA list
	MaxIMALines = 400_000  // entries of an IMA list
	maxIMAField = 64 << 10 // bytes of one entry of an IMA list
	maxBanks    = 8        // algorithms of one log
	maxVariable = 64 << 10 // bytes of a boot variable's name
	maxRemarks  = 16       // faults and notes of one log
	maxText     = 4096     // bytes of a text that a fact keeps
	lastPCR     = 23
	lastMR      = 4
)
