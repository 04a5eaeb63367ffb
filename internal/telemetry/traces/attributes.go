package traces

import (
	"cmp"
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // the last version with gen_ai.*

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The attributes of this runtime.
const (
	keyTurn       attribute.Key = "turnstone.turn_id"
	keyTenant     attribute.Key = "turnstone.tenant"
	keySession    attribute.Key = "turnstone.session_id"
	keyInstance   attribute.Key = "turnstone.agent_instance_id"
	keyPlan       attribute.Key = "turnstone.plan_hash"
	keyMode       attribute.Key = "turnstone.mode"
	keyChannel    attribute.Key = "turnstone.channel"
	keyParent     attribute.Key = "turnstone.parent_turn_id"
	keyStep       attribute.Key = "turnstone.step"
	keyEpoch      attribute.Key = "turnstone.epoch"
	keyPurpose    attribute.Key = "turnstone.request.purpose"
	keyProfile    attribute.Key = "turnstone.model.profile"
	keyCost       attribute.Key = "turnstone.cost_usd"
	keyModel      attribute.Key = "turnstone.model"
	keyTurnInput  attribute.Key = "turnstone.usage.input_tokens"
	keyTurnOutput attribute.Key = "turnstone.usage.output_tokens"
	keyFirst      attribute.Key = "turnstone.first_of_turn"
	keyStopped    attribute.Key = "turnstone.stopped" // the code of the error that stopped a request
	keyToolkit    attribute.Key = "turnstone.toolkit"
	keyRefused    attribute.Key = "turnstone.tool.refused"
	keyCached     attribute.Key = "turnstone.tool.cache_hit"
	keyChild      attribute.Key = "turnstone.child_turn_id"
	keyStatus     attribute.Key = "turnstone.status"
	keyStopReason attribute.Key = "turnstone.stop_reason"
	keyRoute      attribute.Key = "turnstone.route.reason"
	keyRule       attribute.Key = "turnstone.route.rule"
	keyMismatch   attribute.Key = "turnstone.route.mismatch"
	keyToolCalls  attribute.Key = "turnstone.tool_calls"
	keyResult     attribute.Key = "turnstone.result_ref"
	keyApproval   attribute.Key = "turnstone.approval.id"
	keyDecision   attribute.Key = "turnstone.approval.decision"
	keyDecidedBy  attribute.Key = "turnstone.approval.decided_by"
	keyPolicy     attribute.Key = "turnstone.approval.rule"
	keyActivity   attribute.Key = "temporal.activity.type"
	keyAttempt    attribute.Key = "temporal.activity.attempt"
	keyWorkflow   attribute.Key = "temporal.workflow.id"
)

// Attributes that Langfuse reads (docs/guides/tracing.md).
const (
	keyLangfuseTrace       attribute.Key = "langfuse.trace.name"
	keyLangfuseTags        attribute.Key = "langfuse.trace.tags"
	keyLangfuseTraceInput  attribute.Key = "langfuse.trace.input"
	keyLangfuseTraceOutput attribute.Key = "langfuse.trace.output"
	keyLangfuseMetadata                  = "langfuse.trace.metadata."
	keyLangfuseNote                      = "langfuse.observation.metadata."
	keyLangfuseRoot        attribute.Key = "langfuse.internal.as_root" // the turn is the root of the trace, also below a caller's span
	keyLangfuseType        attribute.Key = "langfuse.observation.type"
	keyLangfuseInput       attribute.Key = "langfuse.observation.input"
	keyLangfuseOutput      attribute.Key = "langfuse.observation.output"
	keyLangfuseModel       attribute.Key = "langfuse.observation.model.name"
	keyLangfuseParameters  attribute.Key = "langfuse.observation.model.parameters"
	keyLangfuseUsage       attribute.Key = "langfuse.observation.usage_details"
	keyLangfuseCost        attribute.Key = "langfuse.observation.cost_details"
	keyLangfuseFirst       attribute.Key = "langfuse.observation.completion_start_time"
	keyLangfusePrompt      attribute.Key = "langfuse.observation.prompt.name"
	keyLangfusePromptNo    attribute.Key = "langfuse.observation.prompt.version"
	keyLangfuseLevel       attribute.Key = "langfuse.observation.level"
	keyLangfuseMessage     attribute.Key = "langfuse.observation.status_message"
	keyLangfuseEnvironment attribute.Key = "langfuse.environment"
	keyLangfuseRelease     attribute.Key = "langfuse.release"
	keyLangfuseVersion     attribute.Key = "langfuse.version"
)

// The values of keyLangfuseType and keyLangfuseLevel.
const (
	typeAgent, typeGeneration, typeTool, typeSpan = "agent", "generation", "tool", "span"

	levelWarning, levelError = "WARNING", "ERROR"
)

// attributeList is a list of attributes without empty values.
type attributeList []attribute.KeyValue

func (l *attributeList) addText(k attribute.Key, v string) {
	if v != "" {
		*l = append(*l, k.String(clip.Bytes(v, maxTag)))
	}
}

func (l *attributeList) addNumber(k attribute.Key, v int64) {
	if v != 0 {
		*l = append(*l, k.Int64(v))
	}
}

func (l *attributeList) addFlag(k attribute.Key, v bool) {
	if v {
		*l = append(*l, k.Bool(true))
	}
}

// turnAttributes returns the attributes of every span of a turn. A child turn has no session and no tags, because Langfuse takes those of a trace from
// its first turn.
func (t *Tracing) turnAttributes(o *agent.Observed) []attribute.KeyValue {
	l := make(attributeList, 0, 32)
	l = append(l, t.fixed...)
	l.addText(keyTurn, string(o.TurnID))
	l.addText(keyTenant, o.Tenant)
	l.addText(keySession, string(o.SessionID))
	l.addText(keyInstance, o.InstanceID)
	l.addText(keyPlan, o.PlanHash)
	l.addText(keyMode, string(o.Mode))
	l.addText(keyChannel, o.Channel)
	l.addText(keyParent, string(o.Parent))
	l.addText(semconv.GenAIAgentNameKey, o.Agent)
	l.addText(semconv.GenAIAgentIDKey, o.InstanceID)
	l.addText(semconv.UserIDKey, o.UserID)
	l.addText(keyLangfuseVersion, shortPlan(o.PlanHash))
	metadata := keyLangfuseNote
	if o.Parent == "" {
		metadata = keyLangfuseMetadata
		l.addText(semconv.SessionIDKey, string(o.SessionID))
		l.addText(semconv.GenAIConversationIDKey, string(o.SessionID))
		l.addText(keyLangfuseTrace, o.Agent)
		l = append(l, keyLangfuseTags.StringSlice(tags(o)))
	}
	l.addText(attribute.Key(metadata+"agent_instance_id"), o.InstanceID)
	l.addText(attribute.Key(metadata+"tenant"), o.Tenant)
	l.addText(attribute.Key(metadata+"channel"), o.Channel)
	l.addText(attribute.Key(metadata+"turn_id"), string(o.TurnID))
	return l
}

// tags returns the tags that people filter by. Langfuse allows up to 200 characters in each.
func tags(o *agent.Observed) []string {
	var all []string
	for _, tag := range []struct{ name, value string }{
		{"agent", o.Agent}, {"tenant", o.Tenant}, {"channel", o.Channel}, {"mode", string(o.Mode)},
	} {
		if tag.value != "" {
			all = append(all, tag.name+":"+clip.Bytes(tag.value, maxTag))
		}
	}
	return all
}

// bareHash returns the hash of a plan without its algorithm.
func bareHash(plan string) string {
	if _, after, ok := strings.Cut(plan, ":"); ok {
		return after
	}
	return plan
}

// shortPlan returns the first 12 digits of the hash of a plan.
func shortPlan(plan string) string {
	plan = bareHash(plan)
	return plan[:min(len(plan), 12)]
}

// promptVersion returns the version of a prompt for Langfuse, a number from 1 to 65,535. Two plans may have the same number, but not the same
// langfuse.version.
func promptVersion(plan string) int {
	plan = bareHash(plan)
	b, err := hex.DecodeString(plan[:min(len(plan), 4)])
	if err != nil || len(b) < 2 {
		sum := digest("plan", nil, plan)
		b = sum[:]
	}
	return max(int(b[0])<<8|int(b[1]), 1)
}

// providerName returns the name of a provider in the semantic conventions, or its configured name if they have none.
func providerName(name string) string {
	switch name {
	case "azure", "azure_openai", "azure-openai":
		return "azure.ai.openai"
	case "bedrock":
		return "aws.bedrock"
	case "gemini", "googleai", "google":
		return "gcp.gemini"
	case "vertex", "vertexai":
		return "gcp.vertex_ai"
	case "mistral":
		return "mistral_ai"
	case "xai":
		return "x_ai"
	default:
		return cmp.Or(name, "unknown")
	}
}
