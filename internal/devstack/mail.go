package devstack

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/mail"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

const maxMailBytes = 1 << 20

// Mail is a message that the mail server received.
type Mail struct {
	To      []string
	Subject string
}

// MailServer is a mail server for trying out notifications. It delivers nothing, and passes each message to a function.
type MailServer struct {
	smtp   *smtp.Server
	addr   string
	served sync.WaitGroup

	mu     sync.Mutex
	onMail func(Mail)
}

// startMail starts a mail server. If the port is in use, it takes a free one.
func startMail(cfg MailConfig) (*MailServer, error) {
	listener, err := holdPort(Port{"the mail server", cfg.Port}, true)
	if err != nil {
		return nil, err
	}
	s := &MailServer{addr: listener.Addr().String(), onMail: cfg.OnMail}
	s.smtp = smtp.NewServer(s)
	s.smtp.Domain, s.smtp.MaxMessageBytes, s.smtp.MaxRecipients = "localhost", maxMailBytes, 100
	s.smtp.ReadTimeout, s.smtp.WriteTimeout = time.Minute, time.Minute
	s.served.Go(func() { _ = s.smtp.Serve(listener) }) // returns after Close
	return s, nil
}

// Addr returns the server's host:port.
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
