// Package ledger holds the record's formats and its pure rules: entries and their streams, salted leaves, the Merkle tree
// and its tiles, checkpoints, proofs, envelopes and promises. It does no I/O, reads no clock and draws no randomness.
//
// What happened is an [Entry]. Entries of one actor form a stream, numbered without gaps, each naming the digest of the
// one before, so that a missing entry is a visible gap. An entry's *opening* is a tag, a salt and the entry; SHA-256 of
// the opening is its commitment, and a version byte with the commitment is all that the public log shows: a leaf. Who is
// given the opening can check the entry against the leaf, who is not learns nothing from it.
//
// Leaves form one append-only tree (RFC 6962 hashes) that is kept and served as C2SP tlog-tiles; its head is signed as a
// C2SP tlog-checkpoint. [Append] is the whole writer and [Walk] the whole reader; where tiles, blobs and checkpoints
// come from is a [Source]'s affair. A log could still show each reader another tree: so readers ask for the cosignatures of
// witnesses whom they chose ([WitnessPolicy]) and for proof that each checkpoint continues the last ([Follower]).
// FORMAT.md has every byte.
package ledger
