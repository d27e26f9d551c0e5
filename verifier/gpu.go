package verifier

import (
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/nvidia"
)

// judgeGPUs adds what no single report of a GPU or switch shows: whether they are one machine, and, by the word of the
// agent that a CPU TEE measured, whether the GPUs keep their memory from the host.
func (r *run) judgeGPUs() {
	var members []nvidia.Member
	for _, f := range r.findings {
		if rooms[f.MediaType].name == nvidia.Format {
			members = append(members, nvidia.Member{Subject: f.subject, Finding: f.Finding})
		}
	}
	for _, c := range nvidia.SetClaims(members) {
		r.set.Add(c)
	}
	var said *attest.NVML
	if r.said != nil {
		said = r.said.NVML
	}
	for _, f := range r.findings {
		if f.Class == attest.ClassGPU {
			for _, c := range nvidia.ConfidentialClaims(f.subject, subjectStatement, *r.set, said) {
				r.set.Add(c)
			}
		}
	}
}
