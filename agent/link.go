package agent

import (
	"crypto/sha256"
	"errors"
	"strings"
	"time"
)

// Chat identifies a conversation on a channel. The channel defines ChatID.
type Chat struct {
	Channel string `json:"channel"`
	ChatID  string `json:"chat_id"`
}

// Link connects a chat to a user of a tenant. Messages in the chat are requests of the user.
type Link struct {
	Chat
	Tenant   string    `json:"tenant"`
	UserID   string    `json:"user_id"`
	Role     string    `json:"role,omitempty"`
	Scopes   []string  `json:"scopes"` // what the chat may do, see [Action]
	LinkedBy string    `json:"linked_by,omitempty"`
	LinkedAt time.Time `json:"linked_at,omitzero"`
}

// Principal returns the caller that writes in the chat.
func (l *Link) Principal() Principal {
	return Principal{
		Method: l.Channel, Tenant: l.Tenant, Subject: l.UserID, Role: l.Role, Scopes: l.Scopes, Credential: l.Channel + "/" + l.ChatID,
	}
}

// Bounds of links and their codes.
const (
	LinkCodeTTL     = 15 * time.Minute
	MaxLinkCodes    = 1000      // unused and unexpired codes of a tenant
	MaxLinkFailures = 5         // wrong codes that a chat may send within LinkWindow
	LinkWindow      = time.Hour // see MaxLinkFailures
	MaxUserLinks    = 20        // chats of one user
	MaxLinkScopes   = 64
)

// LinkCode is a code that links the chat that sends it to a user. The code itself is not stored.
type LinkCode struct {
	Hash      []byte // from [HashLinkCode]
	Link      Link   // the link to create; ChatID and LinkedAt are set when the code is used
	ExpiresAt time.Time
}

// HashLinkCode returns the hash under which a code is stored, ignoring case. Codes are long and random, so they need no salt.
func HashLinkCode(code string) []byte {
	sum := sha256.Sum256([]byte("turnstone link\x00" + strings.ToUpper(strings.TrimSpace(code))))
	return sum[:]
}

// ErrLinkCode is the cause of a refused code. It does not distinguish unknown, used and expired codes.
var ErrLinkCode = errors.New("the code is unknown, was used already, or is too old")

// LinkQuery selects links of a tenant, sorted by channel and chat.
type LinkQuery struct {
	Tenant    string
	Channel   string // empty: all
	UserID    string // empty: all
	PageSize  int    // 0: 50; at most 500
	PageToken string
}

// LinkPage is a page of links.
type LinkPage struct {
	Links []Link `json:"links"`
	Next  string `json:"next_page_token"` // empty on the last page
}

// ChatTurn is a turn whose answer a channel must still deliver to a chat. It is stored, so another process can continue the delivery.
type ChatTurn struct {
	Chat
	Account   string // the bot of the channel
	TurnID    TurnID
	Tenant    string
	UserID    string
	Messages  []int64 // the IDs of the messages with the answer so far, in order
	After     int64   // the index of the last handled event
	CreatedAt time.Time
}

// ChatQuestion is an approval that was sent to a chat as a message.
type ChatQuestion struct {
	Chat
	Account    string
	MessageID  int64
	TurnID     TurnID // of the chat; the approval may belong to a turn that it has delegated to
	ApprovalID string
	Tool       string
	Owner      string         // the chat of the turn
	Tenant     string         // of the turn
	UserID     string         // of the turn
	Allowed    []DecisionKind // empty: all
}

// LinkScopes returns the default scopes of a link: to run, read and cancel turns, and to decide their approvals.
func LinkScopes() []string {
	return []string{
		string(ActionTurnsRun), string(ActionTurnsRead), string(ActionTurnsCancel), string(ActionToolsUse), string(ActionApprovalsDecide),
	}
}
