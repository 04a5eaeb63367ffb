package devstack

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"time"
)

// ErrPortInUse says that a wanted port is taken by another program.
var ErrPortInUse = errors.New("port is in use")

// reserveTimeout bounds what happens within this machine's kernel and takes microseconds.
const reserveTimeout = 5 * time.Second

// wantedPort is a port and what it is for, in words for a person. The zero value takes any port.
type wantedPort struct {
	purpose string
	port    int // 0 takes any
}

// heldPort is a port that nobody else can take while we listen on it.
type heldPort struct {
	*net.TCPListener

	addr *net.TCPAddr
}

// choosePorts turns wishes into distinct free ports, in the same order. A wanted port in use is an error, or with
// anyPort replaced. All ports are held until all are found, then released together for their users.
func choosePorts(anyPort bool, wanted ...wantedPort) ([]int, error) {
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

// hold opens a listener for one wish.
func hold(want wantedPort, anyPort bool) (*heldPort, error) {
	listener, err := listen(want.port)
	if want.port != 0 && anyPort && errors.Is(err, syscall.EADDRINUSE) {
		listener, err = listen(0)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: %s wants port %d of %s; stop the program that has it, or choose another port",
			ErrPortInUse, want.purpose, want.port, loopback)
	case err != nil:
		return nil, fmt.Errorf("port for %s: %w", want.purpose, err)
	}
	if listener.addr.Port != want.port {
		if err := reserve(listener); err != nil {
			return nil, errors.Join(fmt.Errorf("reserve port %d: %w", listener.addr.Port, err), listener.Close())
		}
	}
	return listener, nil
}

// release closes the listener and waits until the port is free indeed: where this process starts a child just now,
// that child has a copy of the listener until it runs its own program.
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
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.ParseIP(loopback), Port: port})
	if err != nil {
		return nil, err
	}
	addr, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listen on %s, which is no TCP address", listener.Addr()), listener.Close())
	}
	return &heldPort{listener, addr}, nil
}

// reserve keeps the kernel from giving the listener's port, once closed, to the next program that asks for any: a
// connection closed from the listening side leaves the port in TIME_WAIT for a minute, which those who ask for it
// by number do not mind. Only Linux hands ports out at random; the others go round.
func reserve(listener *heldPort) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	if err := listener.SetDeadline(time.Now().Add(reserveTimeout)); err != nil {
		return err
	}
	near, err := net.DialTCP("tcp4", nil, listener.addr)
	if err != nil {
		return err
	}
	far, err := listener.Accept()
	if err != nil {
		return errors.Join(err, near.Close())
	}
	return errors.Join(far.Close(), near.Close()) // far first: its side then waits
}
