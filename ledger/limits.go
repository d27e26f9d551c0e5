package ledger

// Limits on what the log holds and shows.
const (
	MaxSignatures      = 8        // signatures of one envelope
	MaxEnvelope        = 8 << 20  // bytes of an envelope
	MaxOpening         = 16 << 10 // bytes of an opening, its entry included
	MaxRefs            = 64       // digests that one entry refers to
	MaxStream          = 80       // bytes of a stream's name
	MaxCheckpoint      = 16 << 10 // bytes of a signed checkpoint
	MaxOrigin          = 255      // bytes of a log's origin
	MaxKeys            = 32       // keys of a keyset
	MaxKey             = 1 << 10  // bytes of one SubjectPublicKeyInfo
	MaxKeysets         = 1 << 10  // keysets of a chain of logs: a change of keys every week for twenty years
	MaxKeysetsDocument = 16 << 20 // bytes of the document of the keysets before a log
	MaxProofHashes     = 128      // hashes of one proof: two for each level of the tallest tree
	MaxDevices         = 64       // devices of one enrolment
	MaxSource          = 1 << 10  // bytes of the address that collateral came from, or of a verifier
	MaxVersion         = 80       // bytes of the version of an engine, and of the name of a room
	MaxRooms           = 64       // rooms of an engine
	MaxErasure         = 1 << 20  // bytes of an erasure document
	MaxErased          = 4096     // digests and nodes of one erasure document
	MaxReason          = 1 << 10  // bytes of its reason
	MaxSizes           = 2 << 20  // bytes of a list of kept checkpoints
	SizesPerPage       = 1 << 16  // sizes that one such list is of

	ClockSlack = 60 // seconds between two honest clocks

	MaxWitnessPolicy = 64 << 10 // bytes of a witness policy
	MaxWitnesses     = 32       // logs, witnesses, groups of a policy, each
	MaxAddCheckpoint = 20 << 10 // bytes of a request to a witness: a checkpoint and a proof
)
