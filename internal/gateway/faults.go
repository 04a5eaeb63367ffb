package gateway

import (
	"cmp"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// How many bytes of faults an answer lists. gRPC sends them as headers, twice and in base64, and its clients take no more than 8 KiB of
// headers (grpc-java, grpc-core).
const (
	faultBytes     = 32 << 10
	grpcFaultBytes = 2 << 10
)

// maxFaultText bounds the message of one fault.
const maxFaultText = 500

// someFaults returns the first faults within maxBytes, and a last one with the number of the others.
func someFaults(all agent.Faults, maxBytes int) agent.Faults {
	var listed agent.Faults
	used := 0
	for i := range all {
		f := all[i]
		f.File, f.Document, f.Path = clip.Bytes(f.File, maxPath), clip.Bytes(f.Document, maxPath), clip.Bytes(f.Path, maxPath)
		f.Message = clip.Bytes(f.Message, maxFaultText)
		used += len(f.File) + len(f.Document) + len(f.Path) + len(f.Message)
		if used > maxBytes && i > 0 {
			return append(listed, agent.Fault{Message: fmt.Sprintf("… and %d more", len(all)-i)})
		}
		listed = append(listed, f)
	}
	return listed
}

// summary returns the message of a failure, whose faults are listed in another member.
func summary(all agent.Faults) string {
	first := clip.Bytes(all[0].String(), maxFaultText)
	if more := len(all) - 1; more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}

// violationsOf returns the fields at fault as gRPC's error details.
func violationsOf(f *agent.Failure) []*errdetails.BadRequest_FieldViolation {
	var out []*errdetails.BadRequest_FieldViolation
	if f.Field != "" {
		out = append(out, &errdetails.BadRequest_FieldViolation{Field: validText(f.Field), Description: validText(f.Message)})
	}
	for i := range f.Faults {
		fault := &f.Faults[i]
		out = append(out, &errdetails.BadRequest_FieldViolation{
			Field: validText(cmp.Or(fault.Path, fault.Document, fault.File)), Description: validText(fault.String()),
		})
	}
	return out
}
