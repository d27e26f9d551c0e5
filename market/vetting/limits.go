package vetting

// Limits.
const (
	MaxID         = 64               // bytes of the id of a host, site, provider, issuer or model
	MaxPrincipal  = 520              // bytes of who acts: user:ISSUER/NAME
	MaxDeviceID   = 160              // bytes of the id of a device: a kind and 64 bytes in hex
	MaxValue      = 1024             // bytes of a claim's value
	MaxScope      = 64               // countries or sites of one scope
	MaxTerm       = 5 * 366 * day    // seconds from a claim's issue to its end
	MaxDevices    = 64               // devices of one place
	MaxAssertions = 64               // of one certificate
	MaxFindings   = 32               // of one standing
	MaxWindows    = 64               // maintenance windows that one certificate remembers
	MaxWindow     = 7 * day          // seconds of maintenance in any UptimeSpan
	WatchSlack    = hour             // seconds that nobody weighs a certificate, before that counts as a break in which no host is missed
	FreezeTerm    = 24 * hour        // seconds in which a second officer confirms a freeze
	UptimeSpan    = 30 * day         // seconds in which uptime is counted: windows are remembered for as long
	MaxBody       = 256 << 10        // bytes of an event's body
	MaxCarried    = 4 << 20          // bytes of one part of what is carried over
	carriedPart   = 128 << 10        // bytes of items that make one part, where they are more than one
	MaxParameter  = 10 * 366 * day   // seconds of one operator parameter
	MaxNotices    = 8                // instants before an end at which somebody is told
	MaxAdvisories = 256              // advisories that the operator calls exploited
	MaxChallenger = 8                // hosts that contest one device
	MaxImport     = 1 << 20          // bytes of one file of registry entries
	MaxEntries    = 4096             // registry entries of one file
	MaxEndorsers  = 64               // endorsements of one registry entry
	hour          = 3600             // seconds
	day           = int64(24 * hour) // seconds
)
