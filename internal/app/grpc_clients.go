package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxGRPCClients = 64
	maxGRPCMessage = 4 << 20 // bytes of a message that a service sends
)

// grpcClient says where a service is and how to reach it.
type grpcClient struct {
	name       string // what toolkits ask for
	address    string // host:port
	tls        bool   // false: plain text, for a service beside this process
	caFile     string // PEM; empty: the system's authorities. It needs tls, as do the next three.
	certFile   string // PEM of this process, with keyFile
	keyFile    string
	serverName string // in the service's certificate; empty: the address's host
}

// parseGRPCClient parses name=host:port, or name=grpcs://host:port with ca_file, cert_file, key_file and server_name in the query.
func parseGRPCClient(entry string) (grpcClient, error) {
	name, address, ok := strings.Cut(entry, "=")
	if !ok || !profileName.MatchString(name) {
		return grpcClient{}, agent.Invalid("", "want name=host:port or name=grpcs://host:port")
	}
	if !strings.Contains(address, "://") {
		return grpcClient{name: name, address: address}, nil
	}
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "grpc" && u.Scheme != "grpcs") || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return grpcClient{}, agent.Invalid("", "want name=host:port or name=grpcs://host:port")
	}
	c := grpcClient{name: name, address: u.Host, tls: u.Scheme == "grpcs"}
	for key, values := range u.Query() {
		field, known := map[string]*string{
			"ca_file": &c.caFile, "cert_file": &c.certFile, "key_file": &c.keyFile, "server_name": &c.serverName,
		}[key]
		if !known {
			return grpcClient{}, agent.Invalid("", "unknown option %q: there are ca_file, cert_file, key_file, server_name", key)
		}
		*field = values[0]
	}
	return c, nil
}

func (c *grpcClient) validate() error {
	host, port, err := net.SplitHostPort(c.address)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		return agent.Invalid("address", "want host:port, got %q", c.address)
	}
	switch {
	case !c.tls && (c.caFile != "" || c.certFile != "" || c.keyFile != "" || c.serverName != ""):
		return agent.Invalid("tls", "is off, and certificates or a server name are given")
	case (c.certFile == "") != (c.keyFile == ""):
		return agent.Invalid("cert_file", "and key_file belong together")
	}
	return nil
}

// grpcPool opens the gRPC clients of tools.grpc_clients on their first use, for toolkits to share. It is safe for concurrent use.
type grpcPool struct {
	clients map[string]grpcClient

	mu     sync.Mutex
	open   map[string]*grpc.ClientConn
	closed bool
}

// newGRPCPool parses and checks the entries of tools.grpc_clients; it opens nothing. The error is [agent.CodeInvalid].
func newGRPCPool(entries []string) (*grpcPool, error) {
	if len(entries) > maxGRPCClients {
		return nil, agent.Invalid("clients", "are %d, at most %d", len(entries), maxGRPCClients)
	}
	p := &grpcPool{clients: make(map[string]grpcClient, len(entries)), open: map[string]*grpc.ClientConn{}}
	for i, entry := range entries {
		c, err := parseGRPCClient(entry)
		if err != nil {
			return nil, fmt.Errorf("tools.grpc_clients[%d]: %w", i, err)
		}
		if _, twice := p.clients[c.name]; twice {
			return nil, agent.Invalid("clients", "client %q is given twice, or without a name", c.name)
		}
		if err := c.validate(); err != nil {
			return nil, fmt.Errorf("gRPC client %q: %w", c.name, err)
		}
		p.clients[c.name] = c
	}
	return p, nil
}

// Conn returns the client of a name, the same one each time. It connects with its first call, and again whenever the connection is lost.
// Errors are [agent.CodeNotFound] for an unknown name, [agent.CodeInvalid] if its certificates cannot be read, and [agent.CodeUnavailable]
// once the pool is closed.
func (p *grpcPool) Conn(name string) (grpc.ClientConnInterface, error) {
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

// Close closes the open clients; running calls fail. It may be called twice.
func (p *grpcPool) Close() error {
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

func (c *grpcClient) dial() (*grpc.ClientConn, error) {
	secure, err := c.credentials()
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("dns:///"+c.address,
		grpc.WithTransportCredentials(secure),
		grpc.WithUserAgent("turnstone"),
		grpc.WithNoProxy(),              // never from the environment: the configuration says where the service is
		grpc.WithDisableServiceConfig(), // nor does DNS say how to call it
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxGRPCMessage)))
	if err != nil {
		return nil, agent.Invalid("address", "%w", err)
	}
	return conn, nil
}

func (c *grpcClient) credentials() (grpccredentials.TransportCredentials, error) {
	if !c.tls {
		return insecure.NewCredentials(), nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.serverName}
	if c.caFile != "" {
		pem, err := os.ReadFile(c.caFile)
		if err != nil {
			return nil, agent.Invalid("ca_file", "%w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, agent.Invalid("ca_file", "%s holds no certificate", c.caFile)
		}
	}
	if c.certFile != "" {
		pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
		unread, isUnread := errors.AsType[*fs.PathError](err)
		switch {
		case isUnread && unread.Path == c.keyFile:
			return nil, agent.Invalid("key_file", "%w", err)
		case isUnread:
			return nil, agent.Invalid("cert_file", "%w", err)
		case err != nil:
			return nil, agent.Invalid("cert_file", "%s and %s: %w", c.certFile, c.keyFile, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return grpccredentials.NewTLS(cfg), nil
}
