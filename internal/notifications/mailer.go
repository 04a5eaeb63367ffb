package notifications

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/mail"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"

	"github.com/turnstone-run/turnstone/agent"
)

// Values of [Config.TLS].
const (
	TLSNone     = "none"
	TLSStart    = "starttls" // a server without STARTTLS is an error
	TLSImplicit = "tls"
)

// Bounds of a mail.
const (
	maxRecipients   = 50
	maxSubject      = 500     // characters
	maxBody         = 1 << 20 // bytes
	maxAddressBytes = 320
)

// Config is the configuration of [NewMailer].
type Config struct {
	Addr      string   // host:port
	From      string   // an address, with or without a name
	DefaultTo []string // the recipients of mail that names none
	Username  string   // empty: no authentication
	Password  string
	TLS       string        // none, starttls or tls; empty: starttls
	AllowTo   []string      // allowed recipients: addresses, or *@domain; empty: any
	Timeout   time.Duration // of one delivery; 0: 30 s
	TLSConfig *tls.Config   // nil: the system's root certificates
}

// Mailer sends mail through one server.
type Mailer struct {
	config Config
	host   string
	port   int
	from   *mail.Address
}

// NewMailer returns a mailer, or an error that names the invalid setting. It does not connect.
func NewMailer(c Config) (*Mailer, error) {
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return nil, agent.Invalid("addr", "want host:port: %w", err)
	}
	number, err := strconv.Atoi(port)
	if err != nil || number < 1 || number > 65535 {
		return nil, agent.Invalid("addr", "want a port from 1 to 65535, got %q", port)
	}
	from, err := parseAddress(c.From)
	if err != nil {
		return nil, agent.Invalid("from", "%w", err)
	}
	c.TLS = cmp.Or(c.TLS, TLSStart)
	if !slices.Contains([]string{TLSNone, TLSStart, TLSImplicit}, c.TLS) {
		return nil, agent.Invalid("tls", "want none, starttls or tls, got %q", c.TLS)
	}
	c.Timeout = cmp.Or(max(c.Timeout, 0), 30*time.Second)
	for i, pattern := range c.AllowTo {
		if _, err := parseAddress(strings.Replace(pattern, "*@", "x@", 1)); err != nil {
			return nil, agent.Invalid(fmt.Sprintf("allow_to[%d]", i), "want an address or *@domain: %w", err)
		}
	}
	m := &Mailer{config: c, host: host, port: number, from: from}
	for i, to := range c.DefaultTo {
		if _, err := m.recipient(to); err != nil {
			return nil, agent.Invalid(fmt.Sprintf("default_to[%d]", i), "%w", err)
		}
	}
	return m, nil
}

// Send sends one mail. It calls mark after the server has accepted the sender and the recipients, and before it sends the text. If mark returns an
// error, the mail is not sent and Send returns that error.
func (m *Mailer) Send(ctx context.Context, letter Mail, mark func() error) error {
	ctx, stop := context.WithTimeout(ctx, m.config.Timeout)
	defer stop()
	var markErr error
	msg, err := m.compose(letter, func() error {
		markErr = mark()
		return markErr
	})
	if err != nil {
		return err
	}
	conn := &connection{}
	client, err := m.newClient(conn)
	if err != nil {
		return agent.Errorf(agent.CodeInternal, "send mail", "%w", err)
	}
	// Closing the client would complete a partial text, which the server would accept. So the connection is closed after an error and when ctx
	// ends.
	defer conn.close()
	defer context.AfterFunc(ctx, conn.close)()
	if err := client.DialWithContext(ctx); err != nil {
		return dialError(err)
	}
	if err := client.Send(msg); err != nil {
		if markErr != nil {
			return markErr
		}
		return deliveryError(err)
	}
	_ = client.Close() // the mail is delivered, so an error of QUIT does not matter
	return nil
}

// compose returns the message. ready is called just before its text is written.
func (m *Mailer) compose(letter Mail, ready func() error) (*gomail.Msg, error) {
	to := letter.To
	if len(to) == 0 {
		to = m.config.DefaultTo
	}
	subject := strings.TrimSpace(letter.Subject)
	switch {
	case len(to) == 0:
		return nil, agent.Invalid("to", "is empty, and there is no default recipient")
	case len(to)+len(letter.Cc) > maxRecipients:
		return nil, agent.FieldErrorf(agent.CodeOverflow, "to", "has %d recipients, at most %d", len(to)+len(letter.Cc), maxRecipients)
	case strings.ContainsFunc(subject, unicode.IsControl):
		return nil, agent.Invalid("subject", "has a line break or another control character")
	case len([]rune(subject)) > maxSubject:
		return nil, agent.FieldErrorf(agent.CodeOverflow, "subject", "has %d characters, at most %d", len([]rune(subject)), maxSubject)
	case len(letter.Body) > maxBody:
		return nil, agent.FieldErrorf(agent.CodeOverflow, "body", "is %d bytes, at most %d", len(letter.Body), maxBody)
	}
	msg := gomail.NewMsg()
	if err := msg.FromFormat(m.from.Name, m.from.Address); err != nil {
		return nil, agent.Invalid("from", "%w", err)
	}
	for _, list := range []struct {
		field     string
		addresses []string
		add       func(name, addr string) error
	}{{"to", to, msg.AddToFormat}, {"cc", letter.Cc, msg.AddCcFormat}} {
		for i, text := range list.addresses {
			a, err := m.recipient(text)
			if err == nil {
				err = list.add(a.Name, a.Address)
			}
			if err != nil {
				return nil, agent.FieldErrorf(agent.CodeOf(err), fmt.Sprintf("%s[%d]", list.field, i), "%w", err)
			}
		}
	}
	msg.Subject(subject)
	msg.SetDate()
	if letter.ID != "" {
		msg.SetMessageIDWithValue(letter.ID + "@" + m.domain())
	}
	text := strings.ToValidUTF8(letter.Body, "\uFFFD")
	msg.SetBodyWriter(gomail.TypeTextPlain, func(w io.Writer) (int64, error) {
		if err := ready(); err != nil {
			return 0, err
		}
		n, err := io.WriteString(w, text)
		return int64(n), err
	})
	return msg, nil
}

// domain returns the domain of the sender's address.
func (m *Mailer) domain() string {
	_, domain, _ := strings.Cut(m.from.Address, "@")
	return domain
}

// recipient parses an address to which mail may be sent.
func (m *Mailer) recipient(text string) (*mail.Address, error) {
	a, err := parseAddress(text)
	if err != nil || len(m.config.AllowTo) == 0 {
		return a, err
	}
	_, domain, _ := strings.Cut(a.Address, "@")
	for _, pattern := range m.config.AllowTo {
		if strings.EqualFold(pattern, a.Address) || strings.EqualFold(pattern, "*@"+domain) {
			return a, nil
		}
	}
	return nil, agent.Errorf(agent.CodeDenied, "", "mail to %s is not allowed here", a.Address)
}

// parseAddress parses one address. It refuses characters that could begin another header.
func parseAddress(text string) (*mail.Address, error) {
	invalid := agent.Invalid("", "%.80q is not an address", text)
	if strings.ContainsFunc(text, unicode.IsControl) || len(text) > maxAddressBytes {
		return nil, invalid
	}
	a, err := mail.ParseAddress(text)
	if err != nil {
		return nil, agent.Invalid("", "%.80q is not an address: %w", text, err)
	}
	isForbidden := func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == '"' }
	if strings.ContainsFunc(a.Address, isForbidden) || strings.Count(a.Address, "@") != 1 {
		return nil, invalid
	}
	return a, nil
}

// newClient returns a client that sends one mail over conn.
func (m *Mailer) newClient(conn *connection) (*gomail.Client, error) {
	options := []gomail.Option{
		gomail.WithPort(m.port), gomail.WithTimeout(m.config.Timeout), gomail.WithHELO(m.domain()), gomail.WithDialContextFunc(conn.dial),
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if m.config.TLSConfig != nil {
		config = m.config.TLSConfig.Clone()
	}
	config.ServerName = cmp.Or(config.ServerName, m.host)
	switch m.config.TLS {
	case TLSNone:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	case TLSImplicit:
		conn.tls = config // the client expects the dialer to do the handshake
		options = append(options, gomail.WithSSL(), gomail.WithTLSConfig(config))
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory), gomail.WithTLSConfig(config))
	}
	if m.config.Username != "" {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover),
			gomail.WithUsername(m.config.Username), gomail.WithPassword(m.config.Password))
	}
	return gomail.NewClient(m.host, options...)
}

// dialError returns the error of a connection that failed before anything was sent.
func dialError(err error) error {
	if e, ok := errors.AsType[*textproto.Error](err); ok && e.Code >= 500 {
		return agent.Errorf(agent.CodeDenied, "send mail", "the server refuses the connection: %w", err)
	}
	return agent.Errorf(agent.CodeUnavailable, "send mail", "connect: %w", err)
}

// deliveryError returns the error of a failed delivery. It wraps [ErrUnknown] if the mail may have been delivered.
func deliveryError(err error) error {
	e, ok := errors.AsType[*gomail.SendError](err)
	if !ok {
		return fmt.Errorf("send mail: %w: %w", err, ErrUnknown)
	}
	switch e.Reason {
	case gomail.ErrSMTPReset: // after the server has accepted the mail
		return nil
	case gomail.ErrSMTPDataClose: // the text was sent, but the server's answer is missing
		if e.ErrorCode() == 0 {
			return fmt.Errorf("send mail: the server did not answer after the text: %w: %w", err, ErrUnknown)
		}
	case gomail.ErrAmbiguous:
		return fmt.Errorf("send mail: %w: %w", err, ErrUnknown)
	case gomail.ErrGetSender, gomail.ErrGetRcpts, gomail.ErrNoUnencoded:
		return agent.Errorf(agent.CodeInvalid, "send mail", "%w", err)
	case gomail.ErrSMTPMailFrom, gomail.ErrSMTPRcptTo, gomail.ErrSMTPData, gomail.ErrWriteContent, gomail.ErrConnCheck:
	}
	if e.ErrorCode() >= 500 {
		return agent.Errorf(agent.CodeInvalid, "send mail", "the server refuses it: %w", err)
	}
	return agent.Errorf(agent.CodeUnavailable, "send mail", "%w", err)
}
