// Package audit recomputes a log: whoever holds an export can find out, offline and years later, whether every appraisal
// and every verdict in it follows from its inputs, to the byte.
//
// [Export] writes a log and everything that it names into one file, [Open] and [Directory] read it again as a
// [ledger.Source], and [Replay] recomputes. FORMAT.md has every byte of the file.
//
// What an export says of itself is never believed. Its keys are hints: only a [Trust], which comes from elsewhere, makes
// them more, and without one a replay can show that the log agrees with itself but not whose log it is. A file has one
// spelling: a changed bit anywhere is found, and the part that holds it is named.
//
// This package opens no file, dials nobody and reads no clock, so that a replay depends on its arguments alone.
package audit
