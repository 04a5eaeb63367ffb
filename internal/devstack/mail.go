package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/mail"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

const maxMailBytes = 1 << 20

// Mail is one message to the mail server.
type Mail struct {
	To      []string
	Subject string
}

// MailServer is a mail server that delivers nothing: it passes every message to a function, so that a person can try notifications out.
type MailServer struct {
	smtp   *smtp.Server
	addr   string
	served sync.WaitGroup

	mu     sync.Mutex
	onMail func(Mail)
}

// startMail takes a free port where the wanted one is in use.
func startMail(ctx context.Context, cfg MailConfig) (*MailServer, error) {
	ports, err := ChoosePorts(true, Port{"the mail server", cfg.Port})
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", HostPort(ports[0]))
	if err != nil {
		return nil, fmt.Errorf("start mail server: %w", err)
	}
	s := &MailServer{addr: l.Addr().String(), onMail: cfg.OnMail}
	s.smtp = smtp.NewServer(s)
	s.smtp.Domain, s.smtp.MaxMessageBytes, s.smtp.MaxRecipients = "localhost", maxMailBytes, 100
	s.smtp.ReadTimeout, s.smtp.WriteTimeout = time.Minute, time.Minute
	s.served.Go(func() { _ = s.smtp.Serve(l) }) // it ends with Close
	return s, nil
}

// Addr returns the address as host:port.
func (s *MailServer) Addr() string { return s.addr }

// Close stops the server. Closing again does nothing.
func (s *MailServer) Close() error {
	err := s.smtp.Close()
	s.served.Wait()
	if errors.Is(err, smtp.ErrServerClosed) {
		return nil
	}
	return err
}

// NewSession implements [smtp.Backend].
func (s *MailServer) NewSession(*smtp.Conn) (smtp.Session, error) {
	return &mailSession{server: s}, nil
}

// mailSession is one connection to the mail server.
type mailSession struct {
	server *MailServer
	to     []string
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error {
	s.to = nil
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	message := Mail{To: s.to}
	if m, err := mail.ReadMessage(r); err == nil {
		message.Subject = m.Header.Get("Subject")
		if text, err := new(mime.WordDecoder).DecodeHeader(message.Subject); err == nil {
			message.Subject = text
		}
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("read mail: %w", err)
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.onMail(message)
	return nil
}

func (*mailSession) Reset()        {}
func (*mailSession) Logout() error { return nil }
