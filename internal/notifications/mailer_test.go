package notifications_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

func mailer(t *testing.T, c notifications.Config) *notifications.Mailer {
	t.Helper()
	if c.From == "" {
		c.From = "Turnstone <runs@example.com>"
	}
	m, err := notifications.NewMailer(c)
	require.NoError(t, err)
	return m
}

func letter() notifications.Mail {
	return notifications.Mail{To: []string{"ops@example.com"}, Subject: "Price drop: Zürich", Body: "NYC–LAX 421\n.\nend", ID: "abc"}
}

// countMark returns a function for Send that counts its calls.
func countMark(n *int) func() error {
	return func() error { *n++; return nil }
}

func TestDelivery(t *testing.T) {
	serverTLS, clientTLS := certificate(t)
	for _, c := range []struct {
		name        string
		sink        *sink
		config      notifications.Config
		implicitTLS bool
	}{
		{"plain", &sink{}, notifications.Config{TLS: notifications.TLSNone}, false},
		{"starttls", &sink{}, notifications.Config{TLS: notifications.TLSStart, TLSConfig: clientTLS}, false},
		{"starttls by default", &sink{}, notifications.Config{TLSConfig: clientTLS}, false},
		{"tls", &sink{}, notifications.Config{TLS: notifications.TLSImplicit, TLSConfig: clientTLS}, true},
		{"authenticated", &sink{password: "hunter2"}, notifications.Config{TLSConfig: clientTLS, Username: "bot", Password: "hunter2"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Addr = serve(t, c.sink, serverTLS, c.implicitTLS)
			n := 0
			m := letter()
			m.Cc = []string{"Boss <boss@example.com>"}
			require.NoError(t, mailer(t, c.config).Send(t.Context(), m, countMark(&n)))
			require.Equal(t, 1, n)
			got := c.sink.all()
			require.Len(t, got, 1)
			require.Equal(t, "runs@example.com", got[0].from)
			require.Equal(t, []string{"ops@example.com", "boss@example.com"}, got[0].to)
			require.Equal(t, c.config.Username, got[0].user)
			require.Contains(t, got[0].data, "Message-ID: <abc@example.com>")
			require.Contains(t, got[0].data, "Subject: =?UTF-8?q?Price_drop:_Z=C3=BCrich?=")
			require.Contains(t, got[0].data, "NYC=E2=80=93LAX 421")
			require.Contains(t, got[0].data, "\r\n.\r\nend")
		})
	}
}

func TestDefaultRecipient(t *testing.T) {
	s := &sink{}
	c := notifications.Config{Addr: serve(t, s, nil, false), TLS: notifications.TLSNone}
	m := letter()
	m.To = nil
	n := 0
	err := mailer(t, c).Send(t.Context(), m, countMark(&n))
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	c.DefaultTo = []string{"desk@example.com"}
	require.NoError(t, mailer(t, c).Send(t.Context(), m, countMark(&n)))
	require.Equal(t, []string{"desk@example.com"}, s.all()[0].to)
}

// A mail that is refused before its text has not arrived. The code of the error says whether a retry may help.
func TestRefusals(t *testing.T) {
	serverTLS, clientTLS := certificate(t)
	for _, c := range []struct {
		name   string
		sink   *sink
		config notifications.Config
		server *tls.Config
		code   agent.Code
		text   string
	}{
		{"a recipient", &sink{refuse: "ops@example.com"}, notifications.Config{TLS: notifications.TLSNone}, nil, agent.CodeInvalid, "no such user"},
		{
			"a wrong password", &sink{password: "x"},
			notifications.Config{TLSConfig: clientTLS, Username: "bot", Password: "hunter2"},
			serverTLS,
			agent.CodeUnavailable, "",
		},
		{"no STARTTLS offered", &sink{}, notifications.Config{}, nil, agent.CodeUnavailable, "STARTTLS"},
		{"a certificate of an unknown authority", &sink{}, notifications.Config{}, serverTLS, agent.CodeUnavailable, "certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Addr = serve(t, c.sink, c.server, false)
			n := 0
			err := mailer(t, c.config).Send(t.Context(), letter(), countMark(&n))
			require.Contains(t, []agent.Code{c.code, agent.CodeDenied}, agent.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, c.text)
			require.NotContains(t, err.Error(), "hunter2")
			require.NotErrorIs(t, err, notifications.ErrUnknown)
			require.Zero(t, n)
			require.Empty(t, c.sink.all())
		})
	}
}

func TestConnectionLostAtEachStage(t *testing.T) {
	for _, c := range []struct {
		stage     string
		replies   map[string]string
		isUnknown bool // whether the mail may have arrived
		want      agent.Code
		marks     int
	}{
		{"before the greeting", map[string]string{"hello": ""}, false, agent.CodeUnavailable, 0},
		{"at the greeting", map[string]string{"hello": "554 go away"}, false, agent.CodeDenied, 0},
		{"EHLO", map[string]string{"EHLO": "", "HELO": ""}, false, agent.CodeUnavailable, 0},
		{"MAIL", map[string]string{"MAIL": ""}, false, agent.CodeUnavailable, 0},
		{"MAIL for now", map[string]string{"MAIL": "451 later"}, false, agent.CodeUnavailable, 0},
		{"MAIL for good", map[string]string{"MAIL": "553 no"}, false, agent.CodeInvalid, 0},
		{"RCPT", map[string]string{"RCPT": ""}, false, agent.CodeUnavailable, 0},
		{"RCPT for good", map[string]string{"RCPT": "550 no"}, false, agent.CodeInvalid, 0},
		{"DATA", map[string]string{"DATA": ""}, false, agent.CodeUnavailable, 0},
		{"DATA refused", map[string]string{"DATA": "554 no"}, false, agent.CodeInvalid, 0},
		{"the text is refused for now", map[string]string{"end": "452 full"}, false, agent.CodeUnavailable, 1},
		{"the text is refused", map[string]string{"end": "552 too big"}, false, agent.CodeInvalid, 1},
		{"after the text", map[string]string{"end": ""}, true, "", 1},
		{"silence after the text", map[string]string{"end": "…"}, true, "", 1},
		{"RSET after it was taken", map[string]string{"RSET": ""}, false, "", 1},
		{"QUIT", map[string]string{"QUIT": ""}, false, "", 1},
	} {
		t.Run(c.stage, func(t *testing.T) {
			n := 0
			m := mailer(t, notifications.Config{Addr: startScript(t, c.replies), TLS: notifications.TLSNone, Timeout: 700 * time.Millisecond})
			err := m.Send(t.Context(), letter(), countMark(&n))
			require.Equal(t, c.isUnknown, errors.Is(err, notifications.ErrUnknown), "%v", err)
			if !c.isUnknown {
				require.Equal(t, c.want, agent.CodeOf(err), "%v", err)
			}
			require.Equal(t, c.marks, n)
		})
	}
}

func TestConnectionLostWithinText(t *testing.T) {
	m := mailer(t, notifications.Config{Addr: startScript(t, map[string]string{"text": "cut"}), TLS: notifications.TLSNone, Timeout: 5 * time.Second})
	l := letter()
	l.Body = strings.Repeat(strings.Repeat("x", 70)+"\n", 14_000)
	n := 0
	err := m.Send(t.Context(), l, countMark(&n))
	require.Error(t, err)
	require.Equal(t, 1, n)
}

func TestMailIsNotSentAfterMarkError(t *testing.T) {
	s := &sink{}
	m := mailer(t, notifications.Config{Addr: serve(t, s, nil, false), TLS: notifications.TLSNone})
	markErr := errors.New("the store is unavailable")
	require.ErrorIs(t, m.Send(t.Context(), letter(), func() error { return markErr }), markErr)
	n := 0
	require.NoError(t, m.Send(t.Context(), letter(), countMark(&n))) // the server would have received the first mail by now
	require.Len(t, s.all(), 1)
}

func TestServerUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	n := 0
	err = mailer(t, notifications.Config{Addr: l.Addr().String()}).Send(t.Context(), letter(), countMark(&n))
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.Zero(t, n)
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := mailer(t, notifications.Config{Addr: startScript(t, map[string]string{"end": "…"}), TLS: notifications.TLSNone, Timeout: time.Minute})
	start := time.Now()
	err := m.Send(ctx, letter(), func() error { time.AfterFunc(50*time.Millisecond, cancel); return nil })
	require.ErrorIs(t, err, notifications.ErrUnknown)
	require.Less(t, time.Since(start), 10*time.Second)
}

func TestInvalidMail(t *testing.T) {
	s := &sink{}
	m := mailer(t, notifications.Config{
		Addr: serve(t, s, nil, false), TLS: notifications.TLSNone, AllowTo: []string{"*@example.com", "one@elsewhere.org"},
	})
	for name, c := range map[string]struct {
		change func(l *notifications.Mail)
		field  string
		code   agent.Code
	}{
		"a header in the subject":      {func(l *notifications.Mail) { l.Subject = "a\r\nBcc: x@example.com" }, "subject", agent.CodeInvalid},
		"a header in an address":       {func(l *notifications.Mail) { l.To[0] = "ops@example.com\r\nBcc: x@example.com" }, "to[0]", agent.CodeInvalid},
		"a header in a name":           {func(l *notifications.Mail) { l.Cc = []string{"A\r\nBcc: x@example.com <ops@example.com>"} }, "cc[0]", agent.CodeInvalid},
		"not an address":               {func(l *notifications.Mail) { l.To[0] = "ops" }, "to[0]", agent.CodeInvalid},
		"two addresses in one":         {func(l *notifications.Mail) { l.To[0] = "a@example.com, b@example.com" }, "to[0]", agent.CodeInvalid},
		"a quoted local part":          {func(l *notifications.Mail) { l.To[0] = `"a b"@example.com` }, "to[0]", agent.CodeInvalid},
		"a domain that is not allowed": {func(l *notifications.Mail) { l.To[0] = "a@elsewhere.org" }, "to[0]", agent.CodeDenied},
		"a subdomain":                  {func(l *notifications.Mail) { l.To[0] = "a@sub.example.com" }, "to[0]", agent.CodeDenied},
		"a longer domain":              {func(l *notifications.Mail) { l.To[0] = "a@badexample.com" }, "to[0]", agent.CodeDenied},
		"a long subject":               {func(l *notifications.Mail) { l.Subject = strings.Repeat("é", 501) }, "subject", agent.CodeOverflow},
		"a long body":                  {func(l *notifications.Mail) { l.Body = strings.Repeat("x", 1<<20+1) }, "body", agent.CodeOverflow},
		"many recipients":              {func(l *notifications.Mail) { l.To = make([]string, 51) }, "to", agent.CodeOverflow},
	} {
		t.Run(name, func(t *testing.T) {
			l := letter()
			c.change(&l)
			n := 0
			err := m.Send(t.Context(), l, countMark(&n))
			require.Equal(t, c.code, agent.CodeOf(err), "%v", err)
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.field, e.Field)
			require.Zero(t, n)
		})
	}
	n := 0
	l := letter()
	l.To = []string{"ONE@elsewhere.org", "x@EXAMPLE.com"}
	require.NoError(t, m.Send(t.Context(), l, countMark(&n)))
}

func TestMailerConfig(t *testing.T) {
	for field, c := range map[string]notifications.Config{
		"addr":          {Addr: "mail.example.com", From: "a@example.com"},
		"from":          {Addr: "mail.example.com:25", From: "nobody"},
		"tls":           {Addr: "mail.example.com:25", From: "a@example.com", TLS: "ssl"},
		"allow_to[0]":   {Addr: "mail.example.com:25", From: "a@example.com", AllowTo: []string{"example.com"}},
		"default_to[0]": {Addr: "mail.example.com:25", From: "a@example.com", AllowTo: []string{"*@b.com"}, DefaultTo: []string{"a@example.com"}},
	} {
		_, err := notifications.NewMailer(c)
		var e *agent.Error
		require.ErrorAs(t, err, &e, field)
		require.Equal(t, field, e.Field)
	}
	_, err := notifications.NewMailer(notifications.Config{Addr: "mail:99999", From: "a@example.com"})
	require.Error(t, err)
}
