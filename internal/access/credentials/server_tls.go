package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// tlsCheckInterval is the shortest time between two checks of the files.
const tlsCheckInterval = 10 * time.Second

// maxPEM bounds a file, in bytes.
const maxPEM = 1 << 20

// TLSFiles are PEM files of a server.
type TLSFiles struct {
	Cert     string // its chain, the leaf first
	Key      string
	ClientCA string // who signs certificates of clients; empty: clients need none
	Require  bool   // refuse clients without a certificate; otherwise a given one is verified
}

// ServerTLS returns the TLS configuration of a server, with TLS 1.2 at least. Changed files are read again within seconds, so that renewed
// certificates need no restart. If they cannot be used, the old ones stay and an error is logged.
func ServerTLS(f TLSFiles, logger *zap.Logger) (*tls.Config, error) {
	if logger == nil {
		logger = zap.NewNop()
	}
	s := &tlsReloader{files: f, logger: logger, now: time.Now}
	var err error
	if s.current, s.stamp, err = s.load(); err != nil {
		return nil, fmt.Errorf("load certificates: %w", err)
	}
	s.checkedAt = s.now()
	outer := s.current.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.config(), nil }
	return outer, nil
}

type tlsReloader struct {
	files  TLSFiles
	logger *zap.Logger
	now    func() time.Time

	mu        sync.Mutex
	current   *tls.Config
	stamp     string // sizes and times of the files when they were last read
	checkedAt time.Time
}

// config returns the newest usable configuration.
func (s *tlsReloader) config() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now.Sub(s.checkedAt) < tlsCheckInterval {
		return s.current
	}
	s.checkedAt = now
	if stamp, err := s.stat(); err == nil && stamp == s.stamp {
		return s.current
	}
	next, stamp, err := s.load()
	if err != nil {
		s.logger.Error("certificates changed and cannot be used: the old ones stay", zap.Error(err))
		return s.current
	}
	s.current, s.stamp = next, stamp
	s.logger.Info("certificates were read again", zap.String("cert", s.files.Cert))
	return s.current
}

// stat returns the sizes and times of the files as a text.
func (s *tlsReloader) stat() (string, error) {
	var stamp strings.Builder
	for _, name := range []string{s.files.Cert, s.files.Key, s.files.ClientCA} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return "", fmt.Errorf("look at %s: %w", name, err)
		}
		fmt.Fprintf(&stamp, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	}
	return stamp.String(), nil
}

func (s *tlsReloader) load() (*tls.Config, string, error) {
	stamp, err := s.stat() // before they are read: a change meanwhile is seen the next time
	if err != nil {
		return nil, "", err
	}
	chain, err := readPEM(s.files.Cert)
	if err != nil {
		return nil, "", err
	}
	key, err := readPEM(s.files.Key)
	if err != nil {
		return nil, "", err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, "", fmt.Errorf("%s and %s: %w", s.files.Cert, s.files.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if s.files.ClientCA == "" {
		return c, stamp, nil
	}
	pem, err := readPEM(s.files.ClientCA)
	if err != nil {
		return nil, "", err
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, "", fmt.Errorf("%s holds no certificate", s.files.ClientCA)
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	if s.files.Require {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, stamp, nil
}

func readPEM(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at %s: %w", name, err)
	case !info.Mode().IsRegular():
		return nil, errors.New(name + " is no file")
	case info.Size() > maxPEM:
		return nil, fmt.Errorf("%s is %d bytes, at most %d", name, info.Size(), maxPEM)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}
