// Package conns opens the gRPC clients that the configuration names and toolkits share.
package conns

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxClients = 64
	maxPEM     = 1 << 20 // bytes of a file
	// DefaultMaxMessageBytes bounds one message that a service sends.
	DefaultMaxMessageBytes = 4 << 20
	userAgent              = "turnstone"
)

// Client says where a service is and how to reach it.
type Client struct {
	Name            string // what toolkits ask for
	Address         string // host:port
	TLS             bool   // false: plain text, for a service beside this process
	CAFile          string // PEM; empty: the system's authorities. Wants TLS, as do the next three
	CertFile        string // PEM, with KeyFile: this process proves who it is
	KeyFile         string
	ServerName      string // that the service's certificate must be for; empty: the address's host
	MaxMessageBytes int    // 0: [DefaultMaxMessageBytes]
}

// Pool opens clients when they are first asked for, and closes them. It is safe for concurrent use.
type Pool struct {
	clients map[string]Client

	mu     sync.Mutex
	open   map[string]*grpc.ClientConn
	closed bool
}

// New checks the clients; nothing is opened yet. The error is [agent.CodeInvalid] and names client and field.
func New(clients ...Client) (*Pool, error) {
	if len(clients) > maxClients {
		return nil, agent.Invalid("clients", "are %d, at most %d", len(clients), maxClients)
	}
	p := &Pool{clients: make(map[string]Client, len(clients)), open: map[string]*grpc.ClientConn{}}
	for _, c := range clients {
		if _, twice := p.clients[c.Name]; twice || c.Name == "" {
			return nil, agent.Invalid("clients", "client %q is given twice, or without a name", c.Name)
		}
		if err := c.validate(); err != nil {
			return nil, fmt.Errorf("gRPC client %q: %w", c.Name, err)
		}
		p.clients[c.Name] = c
	}
	return p, nil
}

func (c *Client) validate() error {
	host, port, err := net.SplitHostPort(c.Address)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		return agent.Invalid("address", "want host:port, got %q", c.Address)
	}
	switch {
	case !c.TLS && (c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" || c.ServerName != ""):
		return agent.Invalid("tls", "is off, and certificates or a server name are given")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return agent.Invalid("cert_file", "and key_file belong together")
	case c.MaxMessageBytes < 0:
		return agent.Invalid("max_message_bytes", "is negative: %d", c.MaxMessageBytes)
	}
	return nil
}

// Conn returns the client of a name, the same one each time. It connects with its first call and again whenever the connection is
// lost. [agent.CodeNotFound] when the configuration has none of that name; [agent.CodeInvalid] when its certificates cannot be read;
// [agent.CodeUnavailable] once the pool is closed.
func (p *Pool) Conn(name string) (grpc.ClientConnInterface, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, agent.Errorf(agent.CodeUnavailable, "open gRPC client", "%q: the process is shutting down", name)
	}
	if conn, ok := p.open[name]; ok {
		return conn, nil
	}
	c, ok := p.clients[name]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "open gRPC client", "none is configured under the name %q", name)
	}
	conn, err := c.dial()
	if err != nil {
		return nil, fmt.Errorf("open gRPC client %q: %w", name, err)
	}
	p.open[name] = conn
	return conn, nil
}

// Close closes what was opened; calls that are under way fail. It may be called twice.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var failures []error
	for name, conn := range p.open {
		if err := conn.Close(); err != nil {
			failures = append(failures, fmt.Errorf("close gRPC client %q: %w", name, err))
		}
	}
	clear(p.open)
	return errors.Join(failures...)
}

func (c *Client) dial() (*grpc.ClientConn, error) {
	secure, err := c.credentials()
	if err != nil {
		return nil, err
	}
	limit := c.MaxMessageBytes
	if limit == 0 {
		limit = DefaultMaxMessageBytes
	}
	conn, err := grpc.NewClient("dns:///"+c.Address,
		grpc.WithTransportCredentials(secure),
		grpc.WithUserAgent(userAgent),
		grpc.WithNoProxy(),              // never from the environment: the configuration says where the service is
		grpc.WithDisableServiceConfig(), // nor does DNS say how to call it
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limit)))
	if err != nil {
		return nil, agent.Invalid("address", "%w", err)
	}
	return conn, nil
}

func (c *Client) credentials() (credentials.TransportCredentials, error) {
	if !c.TLS {
		return insecure.NewCredentials(), nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		pem, err := readBounded(c.CAFile)
		if err != nil {
			return nil, agent.Invalid("ca_file", "%w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, agent.Invalid("ca_file", "%s holds no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		certificate, err := c.certificate()
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{certificate}
	}
	return credentials.NewTLS(cfg), nil
}

func (c *Client) certificate() (tls.Certificate, error) {
	cert, err := readBounded(c.CertFile)
	if err != nil {
		return tls.Certificate{}, agent.Invalid("cert_file", "%w", err)
	}
	key, err := readBounded(c.KeyFile)
	if err != nil {
		return tls.Certificate{}, agent.Invalid("key_file", "%w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, agent.Invalid("cert_file", "%s and %s: %w", c.CertFile, c.KeyFile, err)
	}
	return pair, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing is lost: it was read
	pem, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err == nil && len(pem) > maxPEM {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxPEM)
	}
	return pem, err
}
