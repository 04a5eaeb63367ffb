package devstack

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"time"
)

// ErrPortInUse means that a port is in use.
var ErrPortInUse = errors.New("port is in use")

// PortInUseError is an [ErrPortInUse] with the port and its purpose.
type PortInUseError struct {
	Purpose string
	Port    int
}

// Error implements [error].
func (e *PortInUseError) Error() string {
	return fmt.Sprintf("%s: %s wants port %d of %s", ErrPortInUse, e.Purpose, e.Port, Loopback)
}

// Is reports whether target is [ErrPortInUse].
func (e *PortInUseError) Is(target error) bool { return target == ErrPortInUse }

// reserveTimeout bounds connections on the loopback address, which take microseconds.
const reserveTimeout = 5 * time.Second

// Port is a port to listen on. The zero value is any free port.
type Port struct {
	Purpose string // for error texts
	Number  int    // 0: any free port
}

// heldPort is a listener that keeps other programs from taking a port.
type heldPort struct {
	*net.TCPListener

	addr *net.TCPAddr
}

// ChoosePorts returns a free port for each wanted one, all of them different. A wanted port that is in use is an error, or, with anyPort, replaced by
// a free one.
func ChoosePorts(anyPort bool, wanted ...Port) ([]int, error) {
	var held []*heldPort
	var fault error
	for _, want := range wanted {
		listener, err := holdPort(want, anyPort)
		if err != nil {
			fault = err
			break
		}
		held = append(held, listener)
	}
	ports := make([]int, 0, len(held))
	for _, listener := range held {
		ports = append(ports, listener.addr.Port)
		fault = errors.Join(fault, release(listener))
	}
	if fault != nil {
		return nil, fault
	}
	return ports, nil
}

// holdPort listens on a wanted port.
func holdPort(want Port, anyPort bool) (*heldPort, error) {
	listener, err := listen(want.Number)
	if want.Number != 0 && anyPort && errors.Is(err, syscall.EADDRINUSE) {
		listener, err = listen(0)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &PortInUseError{want.Purpose, want.Number}
	case err != nil:
		return nil, fmt.Errorf("port for %s: %w", want.Purpose, err)
	}
	if listener.addr.Port != want.Number {
		if err := reserve(listener); err != nil {
			return nil, errors.Join(fmt.Errorf("reserve port %d: %w", listener.addr.Port, err), listener.Close())
		}
	}
	return listener, nil
}

// release closes the listener and waits until the port is free. A child process that was just forked has a copy of the listener until it executes
// its program.
func release(listener *heldPort) error {
	if err := listener.Close(); err != nil {
		return err
	}
	for deadline := time.Now().Add(reserveTimeout); ; time.Sleep(time.Millisecond) {
		conn, err := net.DialTCP("tcp4", nil, listener.addr)
		if err != nil {
			return nil //nolint:nilerr // the connection failed, so the port is free
		}
		if err := conn.Close(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: something still listens on %s", ErrPortInUse, listener.addr)
		}
	}
}

func listen(port int) (*heldPort, error) {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.ParseIP(Loopback), Port: port})
	if err != nil {
		return nil, err
	}
	addr, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listen on %s, which is no TCP address", listener.Addr()), listener.Close())
	}
	return &heldPort{listener, addr}, nil
}

// reserve keeps the kernel from giving the listener's port, after it is closed, to a program that asks for any port. It makes a connection and closes
// it on the listening side, which leaves the port in TIME_WAIT for a minute. Programs can still ask for the port by number. Only Linux chooses ports
// at random and needs this.
func reserve(listener *heldPort) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	if err := listener.SetDeadline(time.Now().Add(reserveTimeout)); err != nil {
		return err
	}
	client, err := net.DialTCP("tcp4", nil, listener.addr)
	if err != nil {
		return err
	}
	server, err := listener.Accept()
	if err != nil {
		return errors.Join(err, client.Close())
	}
	return errors.Join(server.Close(), client.Close(), listener.SetDeadline(time.Time{})) // the side that closes first is in TIME_WAIT
}
