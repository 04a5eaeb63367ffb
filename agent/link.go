package agent

import (
	"crypto/sha256"
	"errors"
	"strings"
	"time"
)

// Chat names a conversation at a channel: chat_id as the channel writes it.
type Chat struct {
	Channel string `json:"channel"`
	ChatID  string `json:"chat_id"`
}

// Link connects a chat with the user of a tenant for whom it speaks.
type Link struct {
	Chat
	Tenant   string    `json:"tenant"`
	UserID   string    `json:"user_id"`
	Role     string    `json:"role,omitempty"`
	Scopes   []string  `json:"scopes"` // what the chat may do, see [Action]
	LinkedBy string    `json:"linked_by,omitempty"`
	LinkedAt time.Time `json:"linked_at,omitzero"`
}

// Principal returns the caller who speaks in the chat.
func (l *Link) Principal() Principal {
	return Principal{
		Method: l.Channel, Tenant: l.Tenant, Subject: l.UserID, Role: l.Role, Scopes: l.Scopes, Credential: l.Channel + "/" + l.ChatID,
	}
}

// Bounds of links and their codes.
const (
	LinkCodeTTL     = 15 * time.Minute
	MaxLinkCodes    = 1000      // of a tenant, neither used nor expired
	MaxLinkFailures = 5         // wrong codes that a chat may try within LinkWindow
	LinkWindow      = time.Hour // see MaxLinkFailures
	MaxUserLinks    = 20        // chats of one user
	MaxLinkScopes   = 64
)

// LinkCode links the chat that sends the code to a user. The code itself is not stored.
type LinkCode struct {
	Hash      []byte // [HashLinkCode] of it
	Link      Link   // that it creates; chat_id and linked_at are set when it is used
	ExpiresAt time.Time
}

// HashLinkCode returns the hash of a code, which is what is stored. Codes are long and random, so they need no salt. Case does not matter.
func HashLinkCode(code string) []byte {
	sum := sha256.Sum256([]byte("turnstone link\x00" + strings.ToUpper(strings.TrimSpace(code))))
	return sum[:]
}

// ErrLinkCode is the cause of a refused code. It is the same for an unknown, a used and an expired code.
var ErrLinkCode = errors.New("the code is unknown, was used already, or is too old")

// LinkQuery asks for the links of a tenant, by channel and chat.
type LinkQuery struct {
	Tenant    string
	Channel   string // empty: of any
	UserID    string // empty: of any
	PageSize  int    // 0: 50; at most 500
	PageToken string
}

// LinkPage is a page of links.
type LinkPage struct {
	Links []Link `json:"links"`
	Next  string `json:"next_page_token"` // empty: there is none
}

// ChatTurn is a turn whose answer a channel owes a chat until it is settled. It outlives the process that began it.
type ChatTurn struct {
	Chat
	Account   string // of the channel: which bot
	TurnID    TurnID
	Tenant    string
	UserID    string
	Messages  []int64 // those that hold the answer so far, in order
	After     int64   // events up to this index were taken into account
	CreatedAt time.Time
}

// ChatQuestion is an approval that was put to a chat as a message.
type ChatQuestion struct {
	Chat
	Account    string
	MessageID  int64
	TurnID     TurnID // that the chat sees; the approval may be of a turn that it waits for
	ApprovalID string
	Tool       string
	Owner      string // the chat of the turn
	Tenant     string // of the turn, likewise the next
	UserID     string
	Allowed    []DecisionKind // empty: all
}

// LinkScopes returns the scopes of a link without explicit ones: to talk to agents, to stop them, and to decide about own turns.
func LinkScopes() []string {
	return []string{
		string(ActionTurnsRun), string(ActionTurnsRead), string(ActionTurnsCancel), string(ActionToolsUse), string(ActionApprovalsDecide),
	}
}
