package traces

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	keyOperation    = semconv.GenAIOperationNameKey
	keyRequestModel = semconv.GenAIRequestModelKey
	keyInput        = semconv.GenAIInputMessagesKey
	keyOutput       = semconv.GenAIOutputMessagesKey

	operationChat, operationTool, operationAgent = "chat", "execute_tool", "invoke_agent"

	// errorOther is the type of an error without a code in the semantic conventions.
	errorOther = "_OTHER"
)

// codeOf returns the code of an error, also of one from the context package.
func codeOf(err error) string {
	if errors.Is(err, context.Canceled) {
		return string(agent.CodeCancelled)
	}
	if _, ok := errors.AsType[*agent.Error](err); !ok && errors.Is(err, context.DeadlineExceeded) {
		return string(agent.CodeUnavailable)
	}
	return string(agent.CodeOf(err))
}

// setError marks a span as failed if err is not nil. The text of an error is content, because it may quote any message.
func (t *Tracing) setError(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		t.setFailed(span, codeOf(err), err.Error())
	}
}

// setFailed marks a span as failed.
func (t *Tracing) setFailed(span trace.Span, code, message string) {
	message = t.content.text(message)
	span.SetStatus(codes.Error, message)
	l := make(attributeList, 0, 3)
	l.addText(semconv.ErrorTypeKey, cmp.Or(code, errorOther))
	l.addText(keyLangfuseLevel, levelError)
	l.addContent(keyLangfuseMessage, message)
	span.SetAttributes(l...)
}

// Request implements [agent.Observer].
func (t *Tracing) Request(ctx context.Context, r agent.ModelObservation) (context.Context, func(agent.ModelOutcome)) {
	if t.shutdown == nil || r.Turn == nil {
		return ctx, func(agent.ModelOutcome) {}
	}
	ctx, s := t.enterTurn(ctx, r.Turn)
	start := time.Now()
	id := s.uniqueSpanID(kindRequest, []int64{int64(r.Step), int64(r.Epoch)}, string(r.Turn.TurnID), r.Purpose, r.Model.Profile)
	ctx, span := t.startSpan(ctx, operationChat+" "+r.Model.Model, trace.SpanKindClient, id, start, s.attributes)
	if !span.IsRecording() {
		return ctx, func(agent.ModelOutcome) { span.End() }
	}
	span.SetAttributes(t.requestAttributes(&r)...)
	return ctx, func(o agent.ModelOutcome) {
		span.SetAttributes(t.replyAttributes(&o, start)...)
		if err := cmp.Or(o.Cause, o.Err); err != nil {
			t.setError(span, err)
		}
		span.End()
	}
}

// requestAttributes returns the attributes of a request that are known before its reply.
func (t *Tracing) requestAttributes(r *agent.ModelObservation) []attribute.KeyValue {
	l := make(attributeList, 0, 24)
	l.addText(keyOperation, operationChat)
	l.addText(semconv.GenAIProviderNameKey, providerName(r.Model.Provider))
	l.addText(keyRequestModel, r.Model.Model)
	l = append(l, semconv.GenAIRequestStream(true))
	l.addText(keyProfile, r.Model.Profile)
	l.addText(keyPurpose, r.Purpose)
	l.addNumber(keyStep, int64(r.Step))
	l.addNumber(keyEpoch, int64(r.Epoch))
	if u, err := url.Parse(r.Model.BaseURL); err == nil && u.Hostname() != "" {
		l.addText(semconv.ServerAddressKey, u.Hostname())
	}
	l.addParameters(r)
	l.addText(keyLangfuseType, typeGeneration)
	l.addText(keyLangfuseModel, r.Model.Model)
	l.addText(keyLangfusePrompt, r.Turn.Agent)
	if r.Turn.PlanHash != "" {
		l.addNumber(keyLangfusePromptNo, int64(promptVersion(r.Turn.PlanHash)))
	}
	if q := r.Request; q != nil && t.content.isOn() {
		system, messages := t.content.system(q.SystemPrompt()), t.content.messages(q.Messages)
		l.addContent(semconv.GenAISystemInstructionsKey, system)
		l.addContent(keyInput, messages)
		if t.langfuse {
			l.addContent(keyLangfuseInput, withSystem(system, messages))
		}
	}
	return l
}

// addParameters adds the temperature and the bound of tokens of a request.
func (l *attributeList) addParameters(r *agent.ModelObservation) {
	temperature, tokens := r.Model.Temperature, r.Model.MaxTokens
	if q := r.Request; q != nil {
		temperature, tokens = cmp.Or(q.Temperature, temperature), cmp.Or(q.MaxTokens, tokens)
	}
	parameters := map[string]any{}
	if temperature != nil {
		*l = append(*l, semconv.GenAIRequestTemperature(*temperature))
		parameters["temperature"] = *temperature
	}
	if tokens != 0 {
		l.addNumber(semconv.GenAIRequestMaxTokensKey, int64(tokens))
		parameters["max_tokens"] = tokens
	}
	if text, err := json.Marshal(parameters); err == nil && len(parameters) > 0 {
		l.addText(keyLangfuseParameters, string(text))
	}
}

// replyAttributes returns the attributes of the outcome of a request.
func (t *Tracing) replyAttributes(o *agent.ModelOutcome, start time.Time) []attribute.KeyValue {
	l := make(attributeList, 0, 20)
	l = append(l, usageAttributes(&o.Usage)...)
	counts, _ := json.Marshal(usageDetails(&o.Usage)) // cannot fail
	l.addText(keyLangfuseUsage, string(counts))
	if !o.Usage.Unpriced {
		l.addText(keyLangfuseCost, fmt.Sprintf(`{"total":%v}`, o.Usage.CostUSD))
	}
	if o.FirstDelta > 0 {
		l = append(l, semconv.GenAIResponseTimeToFirstChunk(o.FirstDelta.Seconds()))
		l.addText(keyLangfuseFirst, start.Add(o.FirstDelta).UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	l.addFlag(keyFirst, o.FirstOfTurn)
	if o.Cause != nil {
		l.addText(keyStopped, codeOf(o.Cause))
	}
	if o.Reply == nil {
		return l
	}
	l.addText(semconv.GenAIResponseModelKey, o.Reply.Model)
	if o.Reply.Model != "" {
		l.addText(keyLangfuseModel, o.Reply.Model)
	}
	if reason := string(o.Reply.FinishReason); reason != "" {
		l = append(l, semconv.GenAIResponseFinishReasons(clip.Bytes(reason, maxTag)))
	}
	t.addContent(&l, keyOutput, keyLangfuseOutput, t.content.reply(o.Reply.Blocks, string(o.Reply.FinishReason)))
	return l
}

// usageAttributes returns the attributes of tokens and cost.
func usageAttributes(u *agent.Usage) []attribute.KeyValue {
	l := make(attributeList, 0, 5)
	l = append(l, semconv.GenAIUsageInputTokensKey.Int64(u.InputTokens), semconv.GenAIUsageOutputTokensKey.Int64(u.OutputTokens))
	l.addNumber(semconv.GenAIUsageCacheReadInputTokensKey, u.CachedTokens)
	l.addNumber(semconv.GenAIUsageReasoningOutputTokensKey, u.ReasoningTokens)
	return append(l, costAttributes(u)...)
}

// costAttributes returns the attribute of a cost, none if the cost is unknown.
func costAttributes(u *agent.Usage) []attribute.KeyValue {
	if u.Unpriced && u.CostUSD == 0 {
		return nil
	}
	return []attribute.KeyValue{keyCost.Float64(u.CostUSD)}
}

// usageDetails returns the tokens by kind for Langfuse, which adds them up, so that each token is in one kind. The total is separate.
func usageDetails(u *agent.Usage) map[string]int64 {
	d := map[string]int64{
		"input": max(u.InputTokens-u.CachedTokens, 0), "output": max(u.OutputTokens-u.ReasoningTokens, 0), "total": u.InputTokens + u.OutputTokens,
	}
	if u.CachedTokens > 0 {
		d["input_cached_tokens"] = u.CachedTokens
	}
	if u.ReasoningTokens > 0 {
		d["output_reasoning_tokens"] = u.ReasoningTokens
	}
	return d
}

// Tool implements [agent.Observer].
func (t *Tracing) Tool(ctx context.Context, o agent.ToolObservation) (context.Context, func(agent.ToolOutcome)) {
	if t.shutdown == nil || o.Turn == nil {
		return ctx, func(agent.ToolOutcome) {}
	}
	ctx, s := t.enterTurn(ctx, o.Turn)
	var id trace.SpanID
	inner := ctx
	if o.Child != "" {
		// The child turn began before the activity that reports it, so the parent is the turn.
		id = delegateSpanID(o.Child)
		inner = trace.ContextWithRemoteSpanContext(ctx, t.turnTrace(o.Turn).self)
	} else {
		id = s.uniqueSpanID(kindTool, []int64{int64(o.Step), int64(o.Epoch)}, string(o.Turn.TurnID), string(o.CallID))
	}
	inner, span := t.startSpan(inner, operationTool+" "+o.Name, trace.SpanKindInternal, id, o.Started, s.attributes)
	if !span.IsRecording() {
		return inner, func(agent.ToolOutcome) { span.End() }
	}
	l := make(attributeList, 0, 16)
	l.addText(keyOperation, operationTool)
	l.addText(semconv.GenAIToolNameKey, o.Name)
	l.addText(semconv.GenAIToolCallIDKey, string(o.CallID))
	l.addText(semconv.GenAIToolTypeKey, "function")
	l.addText(semconv.GenAIToolDescriptionKey, o.Description)
	l.addText(keyToolkit, o.Toolkit)
	l.addText(keyChild, string(o.Child))
	l.addNumber(keyStep, int64(o.Step))
	l.addNumber(keyEpoch, int64(o.Epoch))
	l.addText(keyLangfuseType, typeTool)
	t.addContent(&l, semconv.GenAIToolCallArgumentsKey, keyLangfuseInput, t.content.text(string(o.Args)))
	span.SetAttributes(l...)
	return inner, func(out agent.ToolOutcome) {
		t.recordResult(span, &out)
		span.End()
	}
}

// recordResult sets the attributes and the status of the outcome of a tool call.
func (t *Tracing) recordResult(span trace.Span, o *agent.ToolOutcome) {
	l := make(attributeList, 0, 6)
	l.addFlag(keyRefused, o.Refused)
	l.addFlag(keyCached, o.Cached)
	if o.Refused {
		l.addText(keyLangfuseLevel, levelWarning)
	}
	if r := o.Result; r != nil {
		t.addContent(&l, semconv.GenAIToolCallResultKey, keyLangfuseOutput, t.content.text(string(r.Output)))
	}
	span.SetAttributes(l...)
	switch {
	case o.Err != nil:
		t.setError(span, o.Err)
	case o.Result != nil && o.Result.Failure != nil && !o.Refused:
		t.setFailed(span, o.Result.Failure.Type, o.Result.Failure.Message)
	}
}

// Decided implements [agent.Observer].
func (t *Tracing) Decided(ctx context.Context, o *agent.Observed, a *agent.Approval) {
	if t.shutdown == nil || o == nil || a == nil {
		return
	}
	place := t.turnTrace(o)
	if !place.self.IsSampled() {
		return
	}
	end := time.Now()
	if a.DecidedAt != nil {
		end = *a.DecidedAt
	}
	start := end
	if a.CreatedAt != nil {
		start = *a.CreatedAt
	}
	ctx = trace.ContextWithRemoteSpanContext(context.WithoutCancel(ctx), place.self)
	l := make(attributeList, 0, 12)
	l.addText(keyApproval, a.ApprovalID)
	l.addText(keyDecision, string(a.Decision))
	l.addText(keyDecidedBy, a.By)
	l.addText(keyPolicy, a.Rule)
	l.addNumber(keyStep, int64(a.Step))
	l.addText(semconv.GenAIToolNameKey, a.ToolName)
	l.addText(semconv.GenAIToolCallIDKey, string(a.CallID))
	l.addText(keyLangfuseType, typeSpan)
	t.addContent(&l, semconv.GenAIToolCallArgumentsKey, keyLangfuseInput, t.content.text(string(a.Args)))
	if t.langfuse {
		l.addContent(keyLangfuseOutput, t.content.text(a.Message))
	}
	_, span := t.startSpan(ctx, "await_approval "+a.ToolName, trace.SpanKindInternal,
		deriveSpanID(kindApproval, nil, string(o.TurnID), a.ApprovalID), start, t.turnAttributes(o), l)
	span.End(trace.WithTimestamp(latest(start, end)))
}
