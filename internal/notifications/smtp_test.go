package notifications_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
)

// sink is an SMTP server that keeps the mail it receives.
type sink struct {
	mu       sync.Mutex
	mails    []receivedMail
	password string // empty: no authentication
	refuse   string // a recipient that it refuses
}

type receivedMail struct {
	from string
	to   []string
	data string
	user string
}

func (s *sink) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{sink: s}, nil }

func (s *sink) all() []receivedMail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

type session struct {
	sink *sink
	mail receivedMail
}

func (s *session) AuthMechanisms() []string {
	if s.sink.password == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if password != s.sink.password {
			return smtp.ErrAuthFailed
		}
		s.mail.user = username
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.sink.password != "" && s.mail.user == "" {
		return smtp.ErrAuthRequired
	}
	s.mail.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if to == s.sink.refuse {
		return &smtp.SMTPError{Code: 550, Message: "no such user"}
	}
	s.mail.to = append(s.mail.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mail.data = string(raw)
	s.sink.mu.Lock()
	defer s.sink.mu.Unlock()
	s.sink.mails = append(s.sink.mails, s.mail)
	return nil
}
func (*session) Reset()        {}
func (*session) Logout() error { return nil }

// certificate returns the configurations of a server with a certificate for 127.0.0.1, and of a client that trusts it.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: roots}
}

// serve starts a server and returns its address.
func serve(t *testing.T, s *sink, server *tls.Config, implicitTLS bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := smtp.NewServer(s)
	srv.Domain, srv.AllowInsecureAuth, srv.TLSConfig = "sink", true, server
	addr := l.Addr().String()
	if implicitTLS {
		srv.TLSConfig = nil
		l = tls.NewListener(l, server)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return addr
}

// startScript starts a server that replies to each command as replies says for its first word. "" closes the connection, and "…" never replies. It
// returns the server's address.
func startScript(t *testing.T, replies map[string]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		reply := func(key, normal string) (ok bool) {
			text, isScripted := replies[key]
			if !isScripted {
				text = normal
			}
			if text != "" && text != "…" {
				_, err = io.WriteString(conn, text+"\r\n")
			}
			return text != "" && err == nil
		}
		if !reply("hello", "220 sink") {
			return
		}
		lines := bufio.NewScanner(conn)
		inText := false
		for lines.Scan() {
			word := strings.ToUpper(strings.Fields(lines.Text() + " x")[0])
			switch {
			case inText && lines.Text() == ".":
				inText = false
				if !reply("end", "250 accepted") {
					return
				}
			case inText:
				if replies["text"] == "cut" {
					return
				}
			case word == "DATA":
				if !reply(word, "354 continue") {
					return
				}
				inText = replies[word] == ""
			default:
				if !reply(word, "250 ok") {
					return
				}
			}
		}
	}()
	return l.Addr().String()
}
