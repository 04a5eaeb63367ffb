// Package mailbox is a mail server that delivers nothing: what workflows send is kept in memory and told to whoever watches. It is for
// trying notifications out, and for tests.
package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/mail"
	"slices"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// Bounds of what is kept.
const (
	maxMails = 200
	maxBytes = 1 << 20
)

// Mail is one message as it came.
type Mail struct {
	From    string
	To      []string
	Subject string // decoded
	Raw     string // with its headers
}

// Config says who is told of mails.
type Config struct {
	// Heard is called with every mail, one at a time, before the sender is answered. Nil: nobody.
	Heard func(Mail)
	// Refuse, where it answers an error, is what the server says to a recipient. Nil: everybody is welcome.
	Refuse func(recipient string) error
}

// Server is a running mail server.
type Server struct {
	cfg    Config
	smtp   *smtp.Server
	addr   string
	served sync.WaitGroup

	mu      sync.Mutex
	mails   []Mail // the newest last
	changed chan struct{}
}

// Start listens on a loopback address, port 0 for any free one.
func Start(ctx context.Context, addr string, cfg Config) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start mail server: %w", err)
	}
	s := &Server{cfg: cfg, addr: l.Addr().String(), changed: make(chan struct{})}
	s.smtp = smtp.NewServer(s)
	s.smtp.Domain, s.smtp.MaxMessageBytes, s.smtp.MaxRecipients = "localhost", maxBytes, 100
	s.smtp.ReadTimeout, s.smtp.WriteTimeout = time.Minute, time.Minute
	s.served.Go(func() { _ = s.smtp.Serve(l) }) // it ends with Close
	return s, nil
}

// Addr is host:port.
func (s *Server) Addr() string { return s.addr }

// Close stops it and forgets nothing.
func (s *Server) Close() error {
	err := s.smtp.Close()
	s.served.Wait()
	if errors.Is(err, smtp.ErrServerClosed) {
		return nil
	}
	return err
}

// Mails are those that came, the oldest first.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// Await waits until n mails have come, and returns all of them.
func (s *Server) Await(ctx context.Context, n int) ([]Mail, error) {
	for {
		s.mu.Lock()
		mails, changed := slices.Clone(s.mails), s.changed
		s.mu.Unlock()
		if len(mails) >= n {
			return mails, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return mails, fmt.Errorf("wait for %d mails, %d came: %w", n, len(mails), context.Cause(ctx))
		}
	}
}

// NewSession implements [smtp.Backend].
func (s *Server) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{server: s}, nil }

// session is one connection.
type session struct {
	server *Server
	mail   Mail
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.mail = Mail{From: from}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if refuse := s.server.cfg.Refuse; refuse != nil {
		if err := refuse(to); err != nil {
			return err
		}
	}
	s.mail.To = append(s.mail.To, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(io.LimitReader(r, maxBytes))
	if err != nil {
		return fmt.Errorf("read mail: %w", err)
	}
	s.mail.Raw = string(raw)
	if m, err := mail.ReadMessage(bytes.NewReader(raw)); err == nil {
		s.mail.Subject = decoded(m.Header.Get("Subject"))
	}
	s.server.keep(s.mail)
	return nil
}

func (*session) Reset()        {}
func (*session) Logout() error { return nil }

func (s *Server) keep(m Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, m)
	if len(s.mails) > maxMails {
		s.mails = slices.Clone(s.mails[len(s.mails)-maxMails:])
	}
	if s.cfg.Heard != nil {
		s.cfg.Heard(m)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// decoded is a header's words; one that cannot be decoded stays as it is.
func decoded(header string) string {
	words, err := new(mime.WordDecoder).DecodeHeader(header)
	if err != nil {
		return header
	}
	return words
}
