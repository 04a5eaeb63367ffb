package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// filler fills every field of a value or message with a different value, so that tests notice a field that a conversion forgets or confuses.
type filler struct{ n int }

func (c *filler) next() int { c.n++; return c.n }

// fill sets all fields of a value that have a JSON name.
func (c *filler) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes(fmt.Append(nil, c.next()))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(int64(c.next()), 0).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("t%d", c.next()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(c.next()))
	case reflect.Float64:
		v.SetFloat(float64(c.next()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		c.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		c.fill(v.Index(0))
		c.fill(v.Index(1))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		c.fill(key)
		if value.Kind() == reflect.Interface {
			value.Set(reflect.ValueOf(fmt.Sprintf("t%d", c.next())))
		} else {
			c.fill(value)
		}
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for about, field := range v.Fields() {
			if about.Tag.Get("json") != "-" {
				c.fill(field)
			}
		}
	default:
		panic("nothing fills " + v.Type().String())
	}
}

// fillMessage sets all fields of a message.
func (c *filler) fillMessage(m protoreflect.Message) {
	switch m.Interface().(type) {
	case *structpb.Struct:
		proto.Merge(m.Interface(), &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewStringValue(fmt.Sprintf("t%d", c.next()))}})
		return
	case *timestamppb.Timestamp:
		proto.Merge(m.Interface(), timestamppb.New(time.Unix(int64(c.next()), 0)))
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !f.IsList() {
			m.Set(f, c.scalar(f, m.NewField(f)))
			continue
		}
		list := m.Mutable(f).List()
		list.Append(c.scalar(f, list.NewElement()))
		list.Append(c.scalar(f, list.NewElement()))
	}
}

// scalar returns a value for a field, or for an entry of a list.
func (c *filler) scalar(f protoreflect.FieldDescriptor, empty protoreflect.Value) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		if jsonText[string(f.Name())] {
			return protoreflect.ValueOfString(fmt.Sprint(c.next()))
		}
		return protoreflect.ValueOfString(fmt.Sprintf("t%d", c.next()))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(c.next()))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(c.next()))
	default:
		c.fillMessage(empty.Message())
		return empty
	}
}

// jsonText names the fields of requests that hold JSON as text.
var jsonText = map[string]bool{"output_schema": true, "parameters": true, "args": true, "output": true, "value": true, "extras": true}

// asText decodes JSON with numbers as text, because proto has large numbers, and JSON of any type, as strings.
func asText(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&v))
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			return v.String()
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			if names, ok := v["names"]; ok && len(v) == 1 { // ToolNames
				return walk(names)
			}
			for name := range v {
				v[name] = walk(v[name])
			}
		}
		return v
	}
	return walk(v)
}

// requireSame compares a value with a message, field by field by their JSON names. The message lacks the skipped fields.
func requireSame(t *testing.T, value any, m proto.Message, skipped ...string) {
	t.Helper()
	data, err := json.Marshal(value)
	require.NoError(t, err)
	want, ok := asText(t, data).(map[string]any)
	require.True(t, ok)
	for _, name := range skipped {
		require.Contains(t, want, name)
		delete(want, name)
	}
	wire, err := proto.Marshal(m)
	require.NoError(t, err)
	received := m.ProtoReflect().New().Interface()
	require.NoError(t, proto.Unmarshal(wire, received))
	data, err = protojson.MarshalOptions{UseProtoNames: true}.Marshal(received)
	require.NoError(t, err)
	require.Equal(t, want, asText(t, data))
}

func TestEventProjection(t *testing.T) {
	var e agent.Event
	(&filler{}).fill(reflect.ValueOf(&e).Elem())
	requireSame(t, e, eventToProto(&e))
	require.Equal(t, "a\uFFFDb", eventToProto(&agent.Event{Type: agent.EventToken, Text: "a\xffb"}).GetText())
}

func TestOutputProjectionHasNoNull(t *testing.T) {
	var o agent.AgentStepOutput
	require.NoError(t, json.Unmarshal([]byte(`{"structured":null,"result_preview":null}`), &o))
	p := outputToProto(&o)
	require.Empty(t, p.GetStructured())
	require.Empty(t, p.GetResultPreview())
}

func TestFindProjection(t *testing.T) {
	var s agent.SessionSummary
	(&filler{}).fill(reflect.ValueOf(&s).Elem())
	requireSame(t, s, sessionSummaryToProto(&s))
	var forked agent.SessionForked
	(&filler{}).fill(reflect.ValueOf(&forked).Elem())
	requireSame(t, forked, forkedToProto(&forked))
	var found agent.TurnSummary
	(&filler{}).fill(reflect.ValueOf(&found).Elem())
	requireSame(t, found, turnSummaryToProto(&found))
}

func TestRequestProjection(t *testing.T) {
	var p pb.TurnRequest
	(&filler{}).fillMessage(p.ProtoReflect())
	r := requestFromProto(&p)
	requireSame(t, agent.TurnBody{TurnRequest: r, Draft: r.Draft.Text}, &p)

	require.Equal(t, agent.TurnRequest{}, requestFromProto(&pb.TurnRequest{}))

	var rerun pb.RerunTurnRequest
	(&filler{}).fillMessage(rerun.ProtoReflect())
	rerun.RerunOf = "" // HTTP has it in the path
	requireSame(t, rerunFromProto(&rerun), &rerun)
	require.Equal(t, agent.RerunRequest{}, rerunFromProto(&pb.RerunTurnRequest{}))
	for name, c := range map[string]struct {
		given *pb.Limits
		want  *agent.Limits
	}{
		"all tools": {&pb.Limits{}, &agent.Limits{}},
		"no tools":  {&pb.Limits{Tools: &pb.ToolNames{}}, &agent.Limits{Tools: []string{}}},
	} {
		require.Equal(t, c.want, requestFromProto(&pb.TurnRequest{Limits: c.given}).Limits, name)
	}
}

// FuzzDecodeRequest checks that any body is a request or an invalid one.
func FuzzDecodeRequest(f *testing.F) {
	for _, seed := range []string{
		`{"message":"x"}`, `{"messages":[{"role":"user","blocks":[{"type":"text","text":"x"}]}]}`, `{"limits":{"tool_calls":"1"}}`,
		`{"message":"x","message":"y"}`, `{"a":{"b":[{"c":1}]}}`, `[]`, `null`, ``, `{"context":{"flags":{"x":[1,{"y":null}]}}}`,
		`{"message":"x","output_schema":{"type":"object"},"on_busy":"queue"} `, "{\"message\":\"\xff\"}", `{"message":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var r agent.TurnRequest
		err := decodeJSON(body, &r)
		if err == nil {
			err = r.Validate(1 << 20)
		}
		if err != nil {
			fail := failureOf(err)
			require.Contains(t, []string{"invalid", "overflow"}, fail.Type)
			require.NotEmpty(t, fail.Message)
			require.LessOrEqual(t, len(fail.Field), maxPath+4)
			_, err := EncodeJSON(errorBody{Error: fail})
			require.NoError(t, err)
			return
		}
		// An accepted request can be encoded and decoded again.
		again, err := json.Marshal(r)
		require.NoError(t, err)
		var second agent.TurnRequest
		require.NoError(t, decodeJSON(again, &second))
	})
}
