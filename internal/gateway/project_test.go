package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// filler fills every field that it finds from a string of bytes, so that a field which the projection forgets is noticed
// without anybody listing it here.
type filler struct{ data *bytes.Reader }

func (f *filler) number() int64 {
	var b [8]byte
	_, _ = f.data.Read(b[:])
	return int64(binary.LittleEndian.Uint64(b[:]))
}

func (f *filler) small(n int64) int { return int(uint64(f.number()) % uint64(n)) }

func (f *filler) text() string {
	b := make([]byte, f.small(12))
	_, _ = f.data.Read(b)
	return utf8(string(b))
}

func (f *filler) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case json.RawMessage:
		raw, err := json.Marshal(f.text())
		if err == nil && f.small(3) > 0 {
			v.SetBytes(raw)
		}
		return
	case time.Time:
		if n := f.number(); n != 0 {
			v.Set(reflect.ValueOf(time.Unix(n%1_000_000_000, 5).UTC()))
		}
		return
	case map[string]any:
		if f.small(2) == 1 {
			v.Set(reflect.ValueOf(map[string]any{f.text(): f.text(), "n": float64(f.small(100)), "l": []any{nil, true}}))
		}
		return
	case *agent.StreamTo:
		return // refused at every door
	case agent.Limits:
		if f.small(3) == 1 {
			defer func() { v.FieldByName("Tools").Set(reflect.ValueOf([]string{})) }() // none are not all of them
		}
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text())
	case reflect.Int, reflect.Int64:
		v.SetInt(f.number())
	case reflect.Float64:
		if n := math.Float64frombits(uint64(f.number())); n == n {
			v.SetFloat(n)
		}
	case reflect.Bool:
		v.SetBool(f.small(2) == 1)
	case reflect.Pointer:
		if f.small(2) == 1 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		if n := f.small(3); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				f.fill(v.Index(i))
			}
		}
	case reflect.Struct:
		for about, field := range v.Fields() {
			if about.Tag.Get("json") != "-" { // not for the wire
				f.fill(field)
			}
		}
	default:
		panic("the filler does not know " + v.Type().String())
	}
}

func overWire[M proto.Message](t *testing.T, m, into M) M {
	t.Helper()
	data, err := proto.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(data, into))
	return into
}

// FuzzProjection proves that a request and an event come back from proto as they went.
func FuzzProjection(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1}, 4000))
	f.Add(bytes.Repeat([]byte{0xff, 3, 0, 7}, 2000))
	seed := make([]byte, 16000)
	for i := range seed {
		seed[i] = byte(i*i*31 + i*7 + i>>5)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		fill := filler{bytes.NewReader(data)}
		var r agent.TurnRequest
		fill.fill(reflect.ValueOf(&r).Elem())
		p, err := requestToProto(&r)
		require.NoError(t, err)
		require.Equal(t, r, requestFromProto(overWire(t, p, &pb.TurnRequest{})))

		var e agent.Event
		fill.fill(reflect.ValueOf(&e).Elem())
		require.Equal(t, e, eventFromProto(overWire(t, eventToProto(&e), &pb.Event{})))
	})
}

// The seeds must reach every field, and each must come back, or the proof above is hollow.
func TestFillerReachesEveryField(t *testing.T) {
	seen := map[string]bool{}
	var note func(prefix string, v reflect.Value)
	note = func(prefix string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				note(prefix, v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				note(prefix, v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				name := v.Type().String() + "." + v.Type().Field(i).Name
				if v.Type().Field(i).Tag.Get("json") == "-" {
					continue
				}
				seen[name] = seen[name] || !v.Field(i).IsZero()
				if v.Type() != reflect.TypeFor[time.Time]() {
					note(name, v.Field(i))
				}
			}
		default:
		}
	}
	for s := range 200 {
		data := make([]byte, 16000)
		for i := range data {
			data[i] = byte(i*i*(31+s) + i*7 + s + i>>5)
		}
		fill := filler{bytes.NewReader(data)}
		var r agent.TurnRequest
		fill.fill(reflect.ValueOf(&r).Elem())
		note("", reflect.ValueOf(r))
		p, err := requestToProto(&r)
		require.NoError(t, err)
		require.Equal(t, r, requestFromProto(overWire(t, p, &pb.TurnRequest{})))
		var e agent.Event
		fill.fill(reflect.ValueOf(&e).Elem())
		note("", reflect.ValueOf(e))
		require.Equal(t, e, eventFromProto(overWire(t, eventToProto(&e), &pb.Event{})))
	}
	for name, reached := range seen {
		if name == "agent.TurnRequest.StreamTo" || len(name) > 5 && name[:5] == "time." {
			continue
		}
		require.True(t, reached, "no seed fills %s", name)
	}
}

func TestProjectionRefusesAndRepairs(t *testing.T) {
	_, err := requestToProto(&agent.TurnRequest{StreamTo: &agent.StreamTo{}})
	require.ErrorContains(t, err, "stream_to")
	_, err = requestToProto(&agent.TurnRequest{Context: agent.InvocationContext{Flags: map[string]any{"f": func() {}}}})
	require.ErrorContains(t, err, "context.flags")
	e := agent.Event{Type: agent.EventToken, Text: "a\xffb"}
	got := eventFromProto(overWire(t, eventToProto(&e), &pb.Event{}))
	require.Equal(t, "a\uFFFDb", got.Text)
}

// FuzzDecodeRequest: whatever the body, the decoder answers with a request or with an error that a caller can act on.
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
			_, err := encode(errorBody{Error: fail})
			require.NoError(t, err)
			return
		}
		// What was accepted can be written and read again.
		again, err := json.Marshal(r)
		require.NoError(t, err)
		var second agent.TurnRequest
		require.NoError(t, decodeJSON(again, &second))
		p, err := requestToProto(&r)
		require.NoError(t, err)
		_, err = proto.Marshal(p)
		require.NoError(t, err)
	})
}
