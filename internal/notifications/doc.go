// Package notifications sends mail by SMTP and requests to webhooks, on behalf of schedules and of workflow definitions. Its errors say
// whether a message may have arrived, which decides whether it may be sent again.
package notifications
