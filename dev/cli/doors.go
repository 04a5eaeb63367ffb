package cli

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// holdAddress returns the address at which the gateway will listen, with its port, so that other parts can start with it. The listener holds the
// address until it is closed. With anyPort, another port of the host replaces one that is in use.
func holdAddress(ctx context.Context, addr string, anyPort bool) (string, net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if anyPort && errors.Is(err, syscall.EADDRINUSE) {
		l, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return "", nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", nil, errors.Join(err, l.Close())
	}
	return net.JoinHostPort(host, port), l, nil
}

// holdDoors holds the addresses of both doors.
func (h *instance) holdDoors(ctx context.Context, anyPort bool) error {
	if !h.settings.Gateway.Enabled {
		return nil
	}
	for _, door := range []struct {
		field string
		addr  *string
	}{{"http.addr", &h.settings.HTTP.Addr}, {"grpc.addr", &h.settings.GRPC.Addr}} {
		addr, held, err := holdAddress(ctx, *door.addr, anyPort)
		if err != nil {
			return explainDoor(door.field, err)
		}
		*door.addr = addr
		h.held = append(h.held, held)
	}
	return nil
}

// releaseDoors releases the addresses for the gateway.
func (h *instance) releaseDoors() error {
	var faults []error
	for _, held := range h.held {
		faults = append(faults, held.Close())
	}
	h.held = nil
	return errors.Join(faults...)
}
