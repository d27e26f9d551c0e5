// A stand-in for NVIDIA's library: it answers the calls of the agent, and has reports and certificates made by the command
// in NVML_STAND_IN. NVML_SETTINGS holds what the driver says: capable, environment, CC, DevTools, multi-GPU mode.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "nvml.h"

static long setting(int i) {
	const char *s = getenv("NVML_SETTINGS");
	return s ? s[i] - '0' : 0;
}

static unsigned int ask(const char *what, nvmlDevice_t d, const unsigned char *nonce, void *out, size_t size) {
	char command[4096], hex[65] = "";
	for (int i = 0; nonce && i < 32; i++) sprintf(hex + 2 * i, "%02x", nonce[i]);
	snprintf(command, sizeof command, "%s %s %ld %s", getenv("NVML_STAND_IN"), what, (long)(size_t)d.handle - 1, hex);
	FILE *f = popen(command, "r");
	if (!f) return 0;
	size_t n = fread(out, 1, size, f);
	return pclose(f) == 0 ? n : 0;
}

nvmlReturn_t nvmlInit_v2(void) { return NVML_SUCCESS; }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t r) { return r == NVML_ERROR_GPU_IS_LOST ? "GPU is lost" : "a fault of the stand-in"; }
nvmlReturn_t nvmlSystemGetDriverVersion(char *v, unsigned int n) { snprintf(v, n, "599.10.01"); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n) { *n = 8; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int i, nvmlDevice_t *d) { d->handle = (struct nvmlDevice_st *)(size_t)(i + 1); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *v, unsigned int n) { snprintf(v, n, "NVIDIA H100"); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *v, unsigned int n) { snprintf(v, n, "GPU-%ld", (long)(size_t)d.handle - 1); return NVML_SUCCESS; }

#ifndef OLD_DRIVER
nvmlReturn_t nvmlSystemGetConfComputeCapabilities(nvmlConfComputeSystemCaps_t *c) {
	memset(c, 0, sizeof *c);
	c->gpusCaps = setting(0);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetConfComputeSettings(nvmlSystemConfComputeSettings_t *s) {
	s->environment = setting(1);
	s->ccFeature = setting(2);
	s->devToolsMode = setting(3);
	s->multiGpuMode = setting(4);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemSetConfComputeGpusReadyState(unsigned int state) {
	FILE *f = fopen(getenv("NVML_READY"), "a");
	if (!f) return NVML_ERROR_UNKNOWN;
	fprintf(f, "%u", state);
	fclose(f);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetConfComputeGpuCertificate(nvmlDevice_t d, nvmlConfComputeGpuCertificate_t *c) {
	memset(c, 0, sizeof *c);
	unsigned int n = ask("chain", d, NULL, c->attestationCertChain, sizeof c->attestationCertChain);
	c->attestationCertChainSize = n + 5; // some drivers count zeros behind the text
	return n ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

nvmlReturn_t nvmlDeviceGetConfComputeGpuAttestationReport(nvmlDevice_t d, nvmlConfComputeGpuAttestationReport_t *r) {
	r->attestationReportSize = ask("report", d, r->nonce, r->attestationReport, sizeof r->attestationReport);
	return r->attestationReportSize ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}
#endif
