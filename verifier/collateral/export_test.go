package collateral

import (
	"context"
	"net"
	"net/http"
	"time"
)

// SetTimeout sets how long one request may take.
func (f *Fetcher) SetTimeout(d time.Duration) { f.timeout = d }

// SetDial sets how services are reached.
func (f *Fetcher) SetDial(dial func(context.Context, string, string) (net.Conn, error)) {
	f.http.Transport.(*http.Transport).DialContext = dial
}
