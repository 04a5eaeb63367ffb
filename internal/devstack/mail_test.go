package devstack

import (
	"net/smtp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMailServer(t *testing.T) {
	t.Parallel()
	var mails []Mail
	s, err := startMail(MailConfig{OnMail: func(m Mail) { mails = append(mails, m) }})
	require.NoError(t, err)
	send := func(to, text string) error {
		return smtp.SendMail(s.Addr(), nil, "a@example.com", []string{to}, []byte(text))
	}
	require.NoError(t, send("b@example.com", "Subject: =?utf-8?q?Pr=C3=A9cis?=\r\n\r\nHello.\r\n"))
	require.NoError(t, send("c@example.com", "no header"))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.Equal(t, []Mail{{To: []string{"b@example.com"}, Subject: "Précis"}, {To: []string{"c@example.com"}}}, mails)
	require.Error(t, send("b@example.com", "Subject: late\r\n\r\n"))
}
