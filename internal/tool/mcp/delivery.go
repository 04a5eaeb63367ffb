package mcp

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// delivery records how far a call got on its way to the server. The call's context holds it, and the transport fills it in.
type delivery struct {
	sent   atomic.Bool  // the server may have it
	status atomic.Int32 // the last HTTP status that answered it; 0: none
}

type deliveryKey struct{}

func withDelivery(ctx context.Context, d *delivery) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}

// deliveryOf returns the delivery in the context, or a new one if there is none.
func deliveryOf(ctx context.Context) *delivery {
	if d, ok := ctx.Value(deliveryKey{}).(*delivery); ok {
		return d
	}
	return &delivery{}
}

// trace returns a context in which net/http records that the server may have the request.
func (d *delivery) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { d.sent.Store(true) }})
}
