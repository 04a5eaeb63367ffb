package devstack

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"time"
)

// ErrPortInUse means that another program has a wanted port.
var ErrPortInUse = errors.New("port is in use")

// PortInUseError is [ErrPortInUse] with the port.
type PortInUseError struct {
	Purpose string
	Port    int
}

// Error implements error.
func (e *PortInUseError) Error() string {
	return fmt.Sprintf("%s: %s wants port %d of %s", ErrPortInUse, e.Purpose, e.Port, Loopback)
}

// Is reports whether target is ErrPortInUse.
func (e *PortInUseError) Is(target error) bool { return target == ErrPortInUse }

// reserveTimeout bounds calls that stay within the kernel and take microseconds.
const reserveTimeout = 5 * time.Second

// Port is a wanted port and its purpose, for error texts. The zero value takes any port.
type Port struct {
	Purpose string
	Number  int // 0 takes any
}

// heldPort is a port that is held by listening on it.
type heldPort struct {
	*net.TCPListener

	addr *net.TCPAddr
}

// ChoosePorts returns distinct free ports in the order of wanted. With anyPort it replaces a wanted port that is in use; otherwise that is an error.
// It holds all ports until it has found the last one, and then releases them.
func ChoosePorts(anyPort bool, wanted ...Port) ([]int, error) {
	var held []*heldPort
	var fault error
	for _, want := range wanted {
		listener, err := hold(want, anyPort)
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

// hold listens on one wanted port.
func hold(want Port, anyPort bool) (*heldPort, error) {
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

// release closes the listener and waits until the port is free: a child that this process has just forked has a copy of the listener until it runs
// its own program.
func release(listener *heldPort) error {
	if err := listener.Close(); err != nil {
		return err
	}
	for deadline := time.Now().Add(reserveTimeout); ; time.Sleep(time.Millisecond) {
		conn, err := net.DialTCP("tcp4", nil, listener.addr)
		if err != nil {
			return nil //nolint:nilerr // nobody answers: the port is free
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

// reserve keeps the kernel from giving the listener's port, once closed, to the next program that asks for any. A connection closed from the
// listening side leaves the port in TIME_WAIT for a minute, which does not affect those who ask for it by number. Only Linux needs this: other
// systems do not choose ports at random.
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
	return errors.Join(server.Close(), client.Close()) // the server first, because its side then waits
}
