package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options are the options of a [Client].
type Options struct {
	Network            string // tcp or unix; "": tcp
	Address            string // host:port, or the path of a socket
	Username, Password string
	DB                 int
	TLS                *tls.Config // nil: no TLS

	ConnectTimeout time.Duration // of getting a connection from the pool or making one; 0: 5 s
	ReadTimeout    time.Duration // of one command; 0: 3 s
	WriteTimeout   time.Duration // 0: 3 s
	IdleTimeout    time.Duration // after which an unused connection is closed; 0: 30 min
	TestAfter      time.Duration // after which an unused connection is tested before it is used, as the server may have restarted; 0: 1 s
	PoolSize       int           // maximum of connections; 0: 10 for each processor

	Dial func(ctx context.Context, network, address string) (net.Conn, error) // nil: net.Dialer
}

func (o *Options) setDefaults() {
	o.Network = cmp.Or(o.Network, "tcp")
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 5*time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 3*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 3*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 30*time.Minute)
	o.TestAfter = cmp.Or(o.TestAfter, time.Second)
	o.PoolSize = cmp.Or(o.PoolSize, 10*runtime.GOMAXPROCS(0))
}

// ParseURL parses redis://user:password@host:6379/0, rediss:// for TLS, or unix:///path/to/socket?db=0. Further parameters are pool_size, dial_timeout,
// read_timeout, write_timeout and, with TLS, skip_verify. An error does not quote the URL, which may contain a password.
func ParseURL(address string) (*Options, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("malformed URL")
	}
	o := &Options{Network: "tcp", Username: u.User.Username()}
	o.Password, _ = u.User.Password()
	db := ""
	switch u.Scheme {
	case "redis", "rediss":
		o.Address = net.JoinHostPort(cmp.Or(u.Hostname(), "localhost"), cmp.Or(u.Port(), "6379"))
		db = strings.Trim(u.Path, "/")
		if u.Scheme == "rediss" {
			o.TLS = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
		}
	case "unix":
		o.Network, o.Address = "unix", u.Path
		if strings.TrimSpace(u.Path) == "" {
			return nil, errors.New("redis: empty unix socket path")
		}
	default:
		return nil, fmt.Errorf("redis: invalid URL scheme: %s", u.Scheme)
	}
	query := u.Query()
	if db = cmp.Or(query.Get("db"), db); db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil {
			return nil, fmt.Errorf("redis: invalid database number: %q", db)
		}
	}
	return o, o.readParameters(query)
}

func (o *Options) readParameters(query url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		value := query.Get(name)
		var err error
		switch {
		case name == "db":
		case name == "pool_size":
			o.PoolSize, err = strconv.Atoi(value)
		case name == "dial_timeout":
			o.ConnectTimeout, err = parseTimeout(value)
		case name == "read_timeout":
			o.ReadTimeout, err = parseTimeout(value)
		case name == "write_timeout":
			o.WriteTimeout, err = parseTimeout(value)
		case name == "skip_verify" && o.TLS != nil:
			o.TLS.InsecureSkipVerify, err = strconv.ParseBool(value)
		default:
			return fmt.Errorf("redis: unexpected option: %s", name)
		}
		if err != nil || o.PoolSize < 0 {
			return fmt.Errorf("redis: invalid %s: %q", name, value)
		}
	}
	return nil
}

// parseTimeout parses a number of seconds, or a duration such as 500ms.
func parseTimeout(value string) (time.Duration, error) {
	if n, err := strconv.Atoi(value); err == nil && n > 0 {
		return time.Duration(n) * time.Second, nil
	}
	d, err := time.ParseDuration(value)
	if err == nil && d <= 0 {
		err = errors.New("want more than 0")
	}
	return d, err
}
