// Package notifications sends mail by SMTP and requests to webhooks, on behalf of schedules and of workflow definitions. Its errors say
// whether a message may have arrived, which decides whether it may be sent again.
package notifications

import (
	"errors"
	"time"
)

// ErrUnknown is wrapped by the error of a message that may have arrived, whatever went wrong. Any other error of [Mailer] and [Webhooks]
// means that it has not arrived: [agent.CodeUnavailable] and [agent.CodeRateLimited] may be tried again, after RetryAfter.
var ErrUnknown = errors.New("it may have taken effect")

// Mail is a mail in plain text.
type Mail struct {
	To      []string // addresses; empty: the runtime's default recipient
	Cc      []string
	Subject string
	Body    string
	ID      string // the same for every attempt; becomes the Message-ID
}

// Webhook is a request to another system.
type Webhook struct {
	Tenant string
	Method string
	URL    string
	Header map[string]string
	Body   []byte
	Auth   string // an auth profile; empty: none
	Key    string // sent as Idempotency-Key
}

// WebhookAnswer is the answer to a [Webhook].
type WebhookAnswer struct {
	Status     int
	Type       string // Content-Type
	Body       []byte // the first [MaxAnswerBytes]
	Truncated  bool   // the answer was longer, or was cut off
	RetryAfter time.Duration
}

// MaxAnswerBytes is how much of a webhook's answer is kept.
const MaxAnswerBytes = 16 << 10
