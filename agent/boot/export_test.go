package boot

// The codec of DHCP, which only the exchange with a real server uses otherwise.
var (
	Ask   = ask
	Parse = parse
)
