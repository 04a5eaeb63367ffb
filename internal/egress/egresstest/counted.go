package egresstest

import (
	"net/http"
	"sync/atomic"
)

// Counted counts what a tool asks.
type Counted struct {
	HTTP interface {
		Do(req *http.Request) (*http.Response, error)
	}
	N atomic.Int32
}

// Do passes a request on.
func (c *Counted) Do(req *http.Request) (*http.Response, error) {
	c.N.Add(1)
	return c.HTTP.Do(req)
}
