package agent

import (
	"encoding/json"
	"time"
)

// SharedTenant is the tenant of a document that every tenant sees; a tenant's own document of the same name comes first. It is no
// tenant's name.
const SharedTenant = "*"

// Kind is the kind of a catalog document (docs/start/catalog.md, "Documents").
type Kind string

// The kinds.
const (
	KindNode      Kind = "NodeDefinition"
	KindAgent     Kind = "AgentInstance"
	KindBinding   Kind = "ToolBinding"
	KindModel     Kind = "ModelProfile"
	KindRoutes    Kind = "RouteTable"
	KindAuth      Kind = "AuthProfile"
	KindKnowledge Kind = "KnowledgeCollection"
)

// Kinds lists all kinds in the order in which lists show them.
func Kinds() []Kind {
	return []Kind{KindNode, KindAgent, KindBinding, KindModel, KindRoutes, KindAuth, KindKnowledge}
}

// DocumentKey names a catalog document.
type DocumentKey struct {
	Kind    Kind   `json:"kind"`
	Tenant  string `json:"tenant,omitempty"`  // [SharedTenant] or a name; empty for a NodeDefinition, which belongs to nobody
	Name    string `json:"name"`              // of a NodeDefinition: its node_id
	Version string `json:"version,omitempty"` // of a NodeDefinition alone
}

// String returns the name for people: "AgentInstance acme/analyst", "NodeDefinition agent@1".
func (k DocumentKey) String() string {
	s := string(k.Kind) + " "
	if k.Tenant != "" {
		s += k.Tenant + "/"
	}
	s += k.Name
	if k.Version != "" {
		s += "@" + k.Version
	}
	return s
}

// Where a document comes from.
const (
	SourceBuiltin = "builtin" // shipped with the product, or derived from its toolkits
	SourceConfig  = "config"  // derived from the configuration
	SourceFolder  = "folder"
	SourceFollow  = "follow" // of another installation, see catalog.follow
	SourceAPI     = "api"
)

// Document is a catalog document as it is stored.
type Document struct {
	DocumentKey

	Body      json.RawMessage `json:"body"`       // the whole document as canonical JSON (RFC 8785)
	Revision  int64           `json:"revision"`   // of the catalog when it last changed; 0 for what is not stored: builtin, config
	Source    string          `json:"source"`     // builtin, config, folder, follow, api
	UpdatedAt time.Time       `json:"updated_at"` // zero for what is not stored
	UpdatedBy string          `json:"updated_by"`
	Deleted   bool            `json:"deleted,omitempty"` // only where changes are asked for
}

// Artifact is a published plan: compiled, and stored by its hash.
type Artifact struct {
	Tenant     string    `json:"tenant"`
	Agent      string    `json:"agent"`
	URI        string    `json:"compiled_artifact_uri"`  // cas://sha256:<hex>
	Hash       string    `json:"compiled_artifact_hash"` // sha256:<hex>
	CompiledAt time.Time `json:"compiled_at"`
	Inputs     string    `json:"inputs"`   // digest of everything that it was compiled from: another digest means that it is stale
	Revision   int64     `json:"revision"` // of the catalog when it was published
}

// CatalogState is all that is stored of the catalog, or its changes since a revision, tombstones included.
type CatalogState struct {
	Revision  int64 // the newest; 0: nothing was ever stored
	Oldest    int64 // changes behind this revision are complete: tombstones before it were removed
	Documents []Document
	Artifacts []Artifact
}

// CatalogCommit is one atomic change: it becomes the revision behind At.
type CatalogCommit struct {
	At      int64 // the revision that the change was checked against; [CodeConflict] when it is no longer the newest
	By      string
	Source  string
	Comment string
	Put     []Document // key and body
	Delete  []DocumentKey
	Publish []Artifact
}

// The actions of a change.
const (
	ActionCreated   = "created"
	ActionUpdated   = "updated"
	ActionUnchanged = "unchanged"
	ActionDeleted   = "deleted"
	ActionPublished = "published"
)

// DocumentChange is the change of one document that a commit made, or would make.
type DocumentChange struct {
	DocumentKey

	Action string          `json:"action"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// AuditEntry is a change with who, when and why.
type AuditEntry struct {
	DocumentChange

	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
	By       string    `json:"by"`
	Source   string    `json:"source"`
	Comment  string    `json:"comment"`
}

// ManifestFile is YAML or JSON text with one or more documents.
type ManifestFile struct {
	Name   string // for faults; may be empty
	Tenant string // of documents that name none; empty: [DefaultTenant]
	Data   []byte
}

// ApplyRequest changes the catalog, all of it or nothing.
type ApplyRequest struct {
	Files        []ManifestFile
	Delete       []DocumentKey // deleted as well
	BaseRevision int64         // what the edit started from: a document that changed since is a conflict; 0: not checked, unless FromEmpty
	FromEmpty    bool          // the edit started from revision 0: a document that was applied since is a conflict
	Prune        bool          // delete the documents of this source that the files do not hold
	PruneTenant  string        // of this tenant alone; empty: of all
	DryRun       bool          // say what would change
	Publish      bool          // publish the agents that changed
	By           string
	Source       string // [SourceAPI], [SourceFolder] or [SourceFollow]
	Comment      string
}

// ApplyResult says what changed.
type ApplyResult struct {
	Revision int64            `json:"revision"` // the new one; of a dry run, or when nothing changed, the current one
	DryRun   bool             `json:"dry_run"`
	Changes  []DocumentChange `json:"changes"`
}

// NodeInfo describes a node definition to those who configure agents.
type NodeInfo struct {
	NodeID      string            `json:"node_id"`
	Version     string            `json:"version"`
	Type        NodeType          `json:"type"`
	Description string            `json:"description"`
	Labels      map[string]string `json:"labels"`
	Properties  json.RawMessage   `json:"properties"` // JSON Schema of the parameters; null when it takes none
	Tools       []ToolInfo        `json:"tools"`      // of a tool or toolkit that this process has
	Revision    int64             `json:"revision"`
	Source      string            `json:"source"`
}

// AgentInfo describes an agent to those who may call it.
type AgentInfo struct {
	Name         string            `json:"name"`
	Tenant       string            `json:"tenant"` // [SharedTenant] or the tenant's name
	InstanceID   string            `json:"instance_id"`
	Description  string            `json:"description"`
	Labels       map[string]string `json:"labels"`
	Default      bool              `json:"default"` // answers requests that name no agent and match no rule
	NodeID       string            `json:"node_id"`
	NodeVersion  string            `json:"node_version"`
	PlanHash     string            `json:"plan_hash"`
	Models       []string          `json:"models"` // profiles that a request may name, the default first
	Tools        []ToolInfo        `json:"tools"`
	Middleware   []string          `json:"middleware"`
	Limits       Limits            `json:"limits"`
	RateLimits   RateLimits        `json:"rate_limits"`
	Capabilities []string          `json:"capabilities"` // sorted: approvals, delegation, direct, knowledge, streaming, structured_output, tools
	Artifact     *Artifact         `json:"artifact"`     // null: not published, or published before something changed
	Revision     int64             `json:"revision"`     // the newest of everything that the agent is made of
	Source       string            `json:"source"`
	Fault        string            `json:"fault,omitempty"` // why it cannot run at present
}

// ToolInfo describes a tool that an agent is granted.
type ToolInfo struct {
	Name           string          `json:"name"`
	Description    string          `json:"description"`
	Toolkit        string          `json:"toolkit"` // the binding's name
	NodeID         string          `json:"node_id"`
	NodeVersion    string          `json:"node_version"`
	SourceNodeName string          `json:"source_node_name"`
	IsFromToolkit  bool            `json:"is_from_toolkit"`
	Parameters     json.RawMessage `json:"parameters"` // JSON Schema of the arguments
	Idempotent     bool            `json:"idempotent"`
	InherentlySafe bool            `json:"inherently_safe"`
	Approval       Approve         `json:"approval"`
}

// NodeQuery filters node definitions; zero fields do not.
type NodeQuery struct {
	Type   NodeType
	NodeID string
	Labels map[string]string // all must be equal
	Page
}

// AgentQuery filters the agents that a tenant may name; zero fields do not.
type AgentQuery struct {
	Tenant string // empty: [DefaultTenant]; [SharedTenant]: the agents of every tenant
	NodeID string
	Tool   string // granted, by its name
	Labels map[string]string
	Page
}

// DocumentQuery filters documents; zero fields do not.
type DocumentQuery struct {
	Kind    Kind
	Tenant  string
	Name    string
	Version string
	Source  string
	Page
}

// HistoryQuery filters the audit trail, newest first; zero fields do not filter.
type HistoryQuery struct {
	Kind   Kind
	Tenant string
	Name   string
	Page
}

// Page asks for a part of a list.
type Page struct {
	Size  int    // 0: 100; at most 1,000
	Token string // as the page before said; empty: the first
}

// NodePage is a part of a list of nodes.
type NodePage struct {
	Nodes    []NodeInfo `json:"nodes"`
	Next     string     `json:"next_page_token"` // empty: this was the last
	Revision int64      `json:"revision"`
}

// AgentPage is a part of a list of agents.
type AgentPage struct {
	Agents   []AgentInfo `json:"agents"`
	Next     string      `json:"next_page_token"`
	Revision int64       `json:"revision"`
}

// DocumentPage is a part of a list of documents.
type DocumentPage struct {
	Documents []Document `json:"documents"`
	Next      string     `json:"next_page_token"`
	Revision  int64      `json:"revision"`
}

// HistoryPage is a part of the audit trail.
type HistoryPage struct {
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next_page_token"`
}

// WatchQuery asks for a stream of the catalog.
type WatchQuery struct {
	Tenant string // as in [AgentQuery]
	After  int64  // the last revision seen; 0: begin with a snapshot
}

// CatalogEvent is one message of the stream: a snapshot first, or when After is too old to resume from, then what changed.
type CatalogEvent struct {
	Revision int64          `json:"revision"` // resume from here
	Snapshot bool           `json:"snapshot"` // this is everything: forget what is not in it
	Nodes    []NodeInfo     `json:"nodes"`
	Agents   []AgentInfo    `json:"agents"`
	Removed  []RemovedEntry `json:"removed"`
}

// RemovedEntry names a removed node version or agent.
type RemovedEntry struct {
	Kind    Kind   `json:"kind"` // [KindNode] or [KindAgent]
	Tenant  string `json:"tenant,omitempty"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// CatalogStatus is the revision that a process serves, and why it serves no newer one.
type CatalogStatus struct {
	Revision int64          `json:"revision"`
	LoadedAt time.Time      `json:"loaded_at"`
	Counts   map[Kind]int   `json:"counts"`
	Sources  []SourceStatus `json:"sources"`
}

// SourceStatus is the state of a source of documents: the store, the folder or the installation that is followed.
type SourceStatus struct {
	Name   string    `json:"name"` // store, folder, follow
	OK     bool      `json:"ok"`
	Detail string    `json:"detail"`
	Faults []Fault   `json:"faults"` // why the newest state of it is not served
	At     time.Time `json:"at"`     // when it was last read
}
