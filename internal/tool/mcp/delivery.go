package mcp

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// delivery is what is known of a call's way to the server. It travels in the call's context, for the transport to fill in.
type delivery struct {
	sent   atomic.Bool  // the server may have it
	status atomic.Int32 // the last HTTP status that answered it; 0: none
}

type deliveryKey struct{}

func withDelivery(ctx context.Context, d *delivery) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}

// deliveryOf returns what the context carries, never nil.
func deliveryOf(ctx context.Context) *delivery {
	if d, ok := ctx.Value(deliveryKey{}).(*delivery); ok {
		return d
	}
	return &delivery{}
}

// traced has net/http note the moment from which a server may have the request.
func (d *delivery) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { d.sent.Store(true) }})
}
