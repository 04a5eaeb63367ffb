package gateway

import (
	"cmp"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The maximum size of the faults in a response, in bytes. gRPC sends them twice in headers, in base64, and its clients refuse more than 8 KiB of
// headers (grpc-java, grpc-core).
const (
	faultBytes     = 32 << 10
	grpcFaultBytes = 2 << 10
)

// maxFaultText is the maximum length of the message of a fault in bytes.
const maxFaultText = 500

// clipFaults returns the first faults, at most maxBytes of them, and a last one with the number of the others.
func clipFaults(all agent.Faults, maxBytes int) agent.Faults {
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

// summary returns the first fault and the number of the others, as the message of a failure.
func summary(all agent.Faults) string {
	first := clip.Bytes(all[0].String(), maxFaultText)
	if more := len(all) - 1; more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}

// violationsOf returns the field and the faults of a failure as gRPC error details.
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
