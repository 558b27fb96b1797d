#!/bin/sh
# The detector runs "ipmitool -I open …", for the BMC of this machine: the real
# ipmitool, but for the BMC that the demo plays.
shift 2
IPMI_DUMMY_SOCK='{{ .BMCSocket }}' exec '{{ .RealIPMITool }}' -I dummy "$@"
