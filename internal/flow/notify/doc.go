// Package notify takes what workflows say to people and systems: mail by SMTP, and requests to webhooks. What it answers says precisely
// whether something may have happened: that decides whether a run may try again.
package notify
