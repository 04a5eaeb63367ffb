package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/turnstone-run/turnstone/internal/app"
)

// hold settles where the gateway will be, before anything that is told so starts: addr with the port that it will have. The address is
// held until the returned listener is closed. One in use is an error, or with anyPort replaced by another port of the same host.
func hold(ctx context.Context, addr string, anyPort bool) (string, net.Listener, error) {
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

// holdDoors does so for both doors.
func (h *house) holdDoors(ctx context.Context, anyPort bool) error {
	if !h.settings.Gateway.Enabled {
		return nil
	}
	for _, door := range []struct {
		field string
		addr  *string
	}{{"http.addr", &h.settings.HTTP.Addr}, {"grpc.addr", &h.settings.GRPC.Addr}} {
		addr, held, err := hold(ctx, *door.addr, anyPort)
		if err != nil {
			return fmt.Errorf("%s: %w", door.field, err)
		}
		*door.addr = addr
		h.held = append(h.held, held)
	}
	return nil
}

// releaseDoors leaves the addresses to the gateway.
func (h *house) releaseDoors() error {
	var faults []error
	for _, held := range h.held {
		faults = append(faults, held.Close())
	}
	h.held = nil
	return errors.Join(faults...)
}

// baseURL is where programs on this machine find the HTTP door, browsers among them; one that listens everywhere is at the loopback
// address.
func baseURL(at app.HTTP) string {
	scheme := "http://"
	if at.TLSCert != "" {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(at.Addr)
	if err != nil {
		return scheme + at.Addr
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}
