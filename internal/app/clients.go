package app

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool/conns"
)

// clients opens the pool of tools.grpc_clients.
func clients(entries []string) (*conns.Pool, error) {
	list := make([]conns.Client, 0, len(entries))
	for i, entry := range entries {
		c, err := grpcClient(entry)
		if err != nil {
			return nil, fmt.Errorf("tools.grpc_clients[%d]: %w", i, err)
		}
		list = append(list, c)
	}
	return conns.New(list...)
}

// grpcClient reads name=host:port, or name=grpcs://host:port with ca_file, cert_file, key_file and server_name in the query.
func grpcClient(entry string) (conns.Client, error) {
	name, address, ok := strings.Cut(entry, "=")
	if !ok || !profileName.MatchString(name) {
		return conns.Client{}, agent.Invalid("", "want name=host:port or name=grpcs://host:port")
	}
	if !strings.Contains(address, "://") {
		return conns.Client{Name: name, Address: address}, nil
	}
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "grpc" && u.Scheme != "grpcs") || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return conns.Client{}, agent.Invalid("", "want name=host:port or name=grpcs://host:port")
	}
	c := conns.Client{Name: name, Address: u.Host, TLS: u.Scheme == "grpcs"}
	for key, values := range u.Query() {
		field, known := map[string]*string{
			"ca_file": &c.CAFile, "cert_file": &c.CertFile, "key_file": &c.KeyFile, "server_name": &c.ServerName,
		}[key]
		if !known {
			return conns.Client{}, agent.Invalid("", "unknown option %q: there are ca_file, cert_file, key_file, server_name", key)
		}
		*field = values[0]
	}
	return c, nil
}
