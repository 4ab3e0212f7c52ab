"""What other libraries make of a robot: run by an environment that has MuJoCo and Pinocchio.

    python peer_robot.py urdf FILE JOINTS    frames of all links where joints have these values
    python peer_robot.py mjcf FILE TIMES     frames of all bodies over time

JOINTS and TIMES are JSON; so is what is printed.
"""

import json
import sys


def urdf(path, joints):
    import numpy as np
    import pinocchio as pin

    model = pin.buildModelFromUrdf(path)
    q = pin.neutral(model)
    for name, value in joints.items():
        joint = model.joints[model.getJointId(name)]
        if joint.nq == 2:  # a turn without end, as cosine and sine
            q[joint.idx_q : joint.idx_q + 2] = np.cos(value), np.sin(value)
        else:
            q[joint.idx_q] = value
    data = model.createData()
    pin.framesForwardKinematics(model, data, q)
    return {
        frame.name: [data.oMf[i].translation.tolist(), data.oMf[i].rotation.tolist()]
        for i, frame in enumerate(model.frames)
        if frame.type == pin.FrameType.BODY
    }


def mjcf(path, times):
    import mujoco

    model = mujoco.MjModel.from_xml_path(path)
    data = mujoco.MjData(model)
    names = [model.body(i).name for i in range(1, model.nbody)]
    out = []
    mujoco.mj_forward(model, data)
    for t in times:
        while data.time < t - model.opt.timestep / 2:
            mujoco.mj_step(model, data)
        mujoco.mj_kinematics(model, data)
        out.append([[data.body(x).xpos.tolist(), data.body(x).xmat.tolist()] for x in names])
    return {"names": names, "frames": out, "mass": model.body_mass[1:].tolist()}


if __name__ == "__main__":
    print(
        json.dumps({"urdf": urdf, "mjcf": mjcf}[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3])))
    )
