package mailbox_test

import (
	"errors"
	"net/smtp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/mailbox"
)

func TestMailbox(t *testing.T) {
	t.Parallel()
	var heard []string
	s, err := mailbox.Start(t.Context(), "127.0.0.1:0", mailbox.Config{
		Heard: func(m mailbox.Mail) { heard = append(heard, m.Subject) },
		Refuse: func(to string) error {
			if to == "nobody@example.com" {
				return errors.New("there is no such person")
			}
			return nil
		},
	})
	require.NoError(t, err)
	send := func(to, text string) error {
		return smtp.SendMail(s.Addr(), nil, "a@example.com", []string{to}, []byte(text))
	}
	require.NoError(t, send("b@example.com", "Subject: =?utf-8?q?Pr=C3=A9cis?=\r\n\r\nHello.\r\n"))
	require.NoError(t, send("c@example.com", "no header"))
	require.ErrorContains(t, send("nobody@example.com", "Subject: x\r\n\r\n"), "there is no such person")
	mails, err := s.Await(t.Context(), 2)
	require.NoError(t, err)
	require.Len(t, mails, 2)
	require.Equal(t, mails, s.Mails())
	require.Equal(t, "a@example.com", mails[0].From)
	require.Equal(t, []string{"b@example.com"}, mails[0].To)
	require.Equal(t, "Précis", mails[0].Subject)
	require.Contains(t, mails[0].Raw, "Hello.")
	require.Equal(t, []string{"Précis", ""}, heard)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.Error(t, send("b@example.com", "Subject: late\r\n\r\n"))
}
