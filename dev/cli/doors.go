package cli

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// holdAddress listens on an address for the gateway and returns it with its port, so that other servers can be configured with it before the gateway
// starts. With anyPort, it takes a free port if the port is in use.
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

// holdGatewayAddresses listens on the addresses of the HTTP and gRPC doors, and sets the settings to the addresses with their ports.
func (inst *instance) holdGatewayAddresses(ctx context.Context, anyPort bool) error {
	if !inst.settings.Gateway.Enabled {
		return nil
	}
	for _, door := range []struct {
		field string
		addr  *string
	}{{"http.addr", &inst.settings.HTTP.Addr}, {"grpc.addr", &inst.settings.GRPC.Addr}} {
		addr, listener, err := holdAddress(ctx, *door.addr, anyPort)
		if err != nil {
			return explainDoor(door.field, err)
		}
		*door.addr = addr
		inst.held = append(inst.held, listener)
	}
	return nil
}

// releaseAddresses closes the listeners, so that the gateway can listen on their addresses.
func (inst *instance) releaseAddresses() error {
	var faults []error
	for _, listener := range inst.held {
		faults = append(faults, listener.Close())
	}
	inst.held = nil
	return errors.Join(faults...)
}
