// Package notifications sends mail by SMTP and requests to webhooks, for schedules and workflow definitions. Its errors say whether a message may have
// arrived, because then it must not be sent again.
package notifications

import (
	"errors"
	"time"
)

// ErrUnknown is wrapped by the error of a message that may have arrived. Any other error of [Mailer] and [Webhooks] means that the message has not
// arrived. After [agent.CodeUnavailable] and [agent.CodeRateLimited], it may be sent again, after RetryAfter.
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
