package e2e_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
)

// smtpSink takes mail as a server does and keeps it.
type smtpSink struct {
	addr  string
	mu    sync.Mutex
	mails []string
}

func startSMTPSink(t testing.TB) *smtpSink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &smtpSink{addr: l.Addr().String()}
	server := smtp.NewServer(s)
	server.Domain = "sink"
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return s
}

// taken are the mails so far, headers and text.
func (s *smtpSink) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.mails...)
}

// NewSession implements [smtp.Backend].
func (s *smtpSink) NewSession(*smtp.Conn) (smtp.Session, error) { return &sinkSession{s}, nil }

type sinkSession struct{ sink *smtpSink }

func (*sinkSession) Mail(string, *smtp.MailOptions) error { return nil }
func (*sinkSession) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (*sinkSession) Reset()                               {}
func (*sinkSession) Logout() error                        { return nil }

func (s *sinkSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.sink.mu.Lock()
	defer s.sink.mu.Unlock()
	s.sink.mails = append(s.sink.mails, string(raw))
	return nil
}
