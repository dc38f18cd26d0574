"""Joint names of rigs that people have, and joints that they have besides those of the 22-joint body."""

from __future__ import annotations

_MORE: dict[str, dict[str, str]] = {
    "motionbuilder": {
        "LeftArmRoll": "LeftArm", "LeftHandIndex1": "LeftHand", "LeftHandThumb1": "LeftHand", "Reference": "Hips",
    },
    "character1": {"Character1_LeftUpLegRoll": "Character1_LeftUpLeg"},
    "mixamo": {"mixamorig:LeftToe_End": "mixamorig:LeftToeBase", "mixamorig:HeadTop_End": "mixamorig:Head"},
    "cmu-bvh": {"LHipJoint": "Hips", "RHipJoint": "Hips", "LeftFingerBase": "LeftHand", "LThumb": "LeftHand"},
    "cmu-asf": {"lhipjoint": "root", "rhipjoint": "root", "lhand": "lwrist", "lfingers": "lwrist", "lthumb": "lwrist"},
    "rokoko": {"LeftFinger1Metacarpal": "LeftHand", "LeftFinger5Tip": "LeftHand"},
    "xsens-bvh": {"Chest4": "Chest3"},
    "xsens-fbx": {"T8": "T12"},
    "daz": {"pelvis": "hip", "lThighTwist": "lThighBend", "lForearmTwist": "lForearmBend", "lMetatarsals": "lFoot"},
    "daz-9": {"pelvis": "hip", "l_thightwist1": "l_thigh", "l_metatarsals": "l_foot", "l_index1": "l_hand"},
    "poser": {"lButtock": "hip", "lThumb1": "lHand"},
    "unreal": {"thigh_twist_01_l": "thigh_l", "ik_foot_l": "pelvis", "ik_hand_gun": "pelvis", "index_01_l": "hand_l"},
    "smpl": {"L_Hand": "L_Wrist", "R_Hand": "R_Wrist"},
    "perception-neuron": {"Robot_Spine3": "Robot_Spine2", "Robot_LeftInHandIndex": "Robot_LeftHand"},
    "iclone": {
        "CC_Base_Pelvis": "CC_Base_Hip", "CC_Base_L_ThighTwist01": "CC_Base_L_Thigh", "CC_Base_L_Eye": "CC_Base_Head",
    },
    "biped": {"Bip01 L Finger0": "Bip01 L Hand", "Bip01 L Toe01": "Bip01 L Toe0"},
    "vrm": {
        "J_Sec_Hair0": "J_Bip_C_Head", "J_Sec_Hair1": "J_Bip_C_Head", "J_Sec_Hair2": "J_Bip_C_Head",
        "J_Sec_Hair3": "J_Bip_C_Head", "J_Sec_Hair4": "J_Bip_C_Head", "J_Sec_Hair5": "J_Bip_C_Head",
        "J_Sec_Hair6": "J_Bip_C_Head", "J_Sec_Hair7": "J_Bip_C_Head", "J_Sec_Hair8": "J_Bip_C_Head",
        "J_Sec_Hair9": "J_Bip_C_Head", "J_Sec_Hair10": "J_Bip_C_Head", "J_Sec_Hair11": "J_Bip_C_Head",
        "J_Sec_Hair12": "J_Bip_C_Head", "J_Sec_Hair13": "J_Bip_C_Head", "J_Sec_Hair14": "J_Bip_C_Head",
        "J_Sec_Hair15": "J_Bip_C_Head", "J_Sec_Hair16": "J_Bip_C_Head", "J_Sec_Hair17": "J_Bip_C_Head",
        "J_Sec_Hair18": "J_Bip_C_Head", "J_Sec_Hair19": "J_Bip_C_Head",
    },
    "blender": {"heel.02.L": "foot.L"},
    "makehuman": {
        "upperleg02.L": "upperleg01.L", "lowerarm02.R": "lowerarm01.R", "toe2-1.L": "foot.L",
        "shoulder01.L": "spine03",
    },
    "arkit": {"left_toesEnd_joint": "left_toes_joint"},
    "advanced-skeleton": {"ToesEnd_L": "Toes_L"},
    "auto-rig-pro": {
        "thigh_twist.l": "thigh_stretch.l", "leg_twist.r": "leg_stretch.r", "arm_twist.l": "arm_stretch.l",
        "forearm_twist.r": "forearm_stretch.r", "c_thumb1.l": "hand.l",
    },
    "mmd": {
        "左足ＩＫ": "センター", "右つま先ＩＫ": "センター", "左腕捩": "左腕", "右手捩": "右ひじ", "左足D": "左足",
        "左親指１": "左手首", "左目": "頭",
    },
    "mmd-tools": {"足ＩＫ.L": "腰", "腕捩.R": "腕.R"},
}  # fmt: skip
"""Joints besides those of the body, with their parents, by rig."""

_NAMES = {
    "motionbuilder": (
        "Hips, LeftUpLeg, RightUpLeg, Spine, LeftLeg, RightLeg, Spine1, LeftFoot, RightFoot, Spine2, LeftToeBase, "
        "RightToeBase, Neck, LeftShoulder, RightShoulder, Head, LeftArm, RightArm, LeftForeArm, RightForeArm, "
        "LeftHand, RightHand"
    ),
    "cmu-bvh": (
        "Hips, LeftUpLeg, RightUpLeg, LowerBack, LeftLeg, RightLeg, Spine, LeftFoot, RightFoot, Spine1, "
        "LeftToeBase, RightToeBase, Neck, LeftShoulder, RightShoulder, Head, LeftArm, RightArm, LeftForeArm, "
        "RightForeArm, LeftHand, RightHand"
    ),
    "cmu-asf": (
        "root, lfemur, rfemur, lowerback, ltibia, rtibia, upperback, lfoot, rfoot, thorax, ltoes, rtoes, "
        "upperneck, lclavicle, rclavicle, head, lhumerus, rhumerus, lradius, rradius, lwrist, rwrist"
    ),
    "rokoko": (
        "Hips, LeftThigh, RightThigh, Spine1, LeftShin, RightShin, Spine2, LeftFoot, RightFoot, Spine3, LeftToe, "
        "RightToe, Neck, LeftShoulder, RightShoulder, Head, LeftArm, RightArm, LeftForeArm, RightForeArm, "
        "LeftHand, RightHand"
    ),
    "xsens-bvh": (
        "Hips, LeftHip, RightHip, Chest, LeftKnee, RightKnee, Chest2, LeftAnkle, RightAnkle, Chest3, LeftToe, "
        "RightToe, Neck, LeftCollar, RightCollar, Head, LeftShoulder, RightShoulder, LeftElbow, RightElbow, "
        "LeftWrist, RightWrist"
    ),
    "xsens-fbx": (
        "Pelvis, LeftUpperLeg, RightUpperLeg, L5, LeftLowerLeg, RightLowerLeg, L3, LeftFoot, RightFoot, T12, "
        "LeftToe, RightToe, Neck, LeftShoulder, RightShoulder, Head, LeftUpperArm, RightUpperArm, LeftForeArm, "
        "RightForeArm, LeftHand, RightHand"
    ),
    "daz": (
        "hip, lThighBend, rThighBend, abdomenLower, lShin, rShin, abdomenUpper, lFoot, rFoot, chestLower, lToe, "
        "rToe, neckLower, lCollar, rCollar, head, lShldrBend, rShldrBend, lForearmBend, rForearmBend, lHand, rHand"
    ),
    "daz-9": (
        "hip, l_thigh, r_thigh, spine1, l_shin, r_shin, spine2, l_foot, r_foot, spine3, l_toes, r_toes, neck1, "
        "l_shoulder, r_shoulder, head, l_upperarm, r_upperarm, l_forearm, r_forearm, l_hand, r_hand"
    ),
    "poser": (
        "hip, lThigh, rThigh, abdomen, lShin, rShin, chest, lFoot, rFoot, chest2, lToe, rToe, neck, lCollar, "
        "rCollar, head, lShldr, rShldr, lForeArm, rForeArm, lHand, rHand"
    ),
    "unreal": (
        "pelvis, thigh_l, thigh_r, spine_01, calf_l, calf_r, spine_02, foot_l, foot_r, spine_03, ball_l, ball_r, "
        "neck_01, clavicle_l, clavicle_r, head, upperarm_l, upperarm_r, lowerarm_l, lowerarm_r, hand_l, hand_r"
    ),
    "smpl": (
        "Pelvis, L_Hip, R_Hip, Spine1, L_Knee, R_Knee, Spine2, L_Ankle, R_Ankle, Spine3, L_Foot, R_Foot, Neck, "
        "L_Collar, R_Collar, Head, L_Shoulder, R_Shoulder, L_Elbow, R_Elbow, L_Wrist, R_Wrist"
    ),
    "smpl-fbx": (
        "m_avg_Pelvis, m_avg_L_Hip, m_avg_R_Hip, m_avg_Spine1, m_avg_L_Knee, m_avg_R_Knee, m_avg_Spine2, "
        "m_avg_L_Ankle, m_avg_R_Ankle, m_avg_Spine3, m_avg_L_Foot, m_avg_R_Foot, m_avg_Neck, m_avg_L_Collar, "
        "m_avg_R_Collar, m_avg_Head, m_avg_L_Shoulder, m_avg_R_Shoulder, m_avg_L_Elbow, m_avg_R_Elbow, "
        "m_avg_L_Wrist, m_avg_R_Wrist"
    ),
    "humanml": (
        "pelvis, left_hip, right_hip, spine1, left_knee, right_knee, spine2, left_ankle, right_ankle, spine3, "
        "left_foot, right_foot, neck, left_collar, right_collar, head, left_shoulder, right_shoulder, left_elbow, "
        "right_elbow, left_wrist, right_wrist"
    ),
    "iclone": (
        "CC_Base_Hip, CC_Base_L_Thigh, CC_Base_R_Thigh, CC_Base_Waist, CC_Base_L_Calf, CC_Base_R_Calf, "
        "CC_Base_Spine01, CC_Base_L_Foot, CC_Base_R_Foot, CC_Base_Spine02, CC_Base_L_ToeBase, CC_Base_R_ToeBase, "
        "CC_Base_NeckTwist01, CC_Base_L_Clavicle, CC_Base_R_Clavicle, CC_Base_Head, CC_Base_L_Upperarm, "
        "CC_Base_R_Upperarm, CC_Base_L_Forearm, CC_Base_R_Forearm, CC_Base_L_Hand, CC_Base_R_Hand"
    ),
    "biped": (
        "Bip01 Pelvis, Bip01 L Thigh, Bip01 R Thigh, Bip01 Spine, Bip01 L Calf, Bip01 R Calf, Bip01 Spine1, "
        "Bip01 L Foot, Bip01 R Foot, Bip01 Spine2, Bip01 L Toe0, Bip01 R Toe0, Bip01 Neck, Bip01 L Clavicle, "
        "Bip01 R Clavicle, Bip01 Head, Bip01 L UpperArm, Bip01 R UpperArm, Bip01 L Forearm, Bip01 R Forearm, "
        "Bip01 L Hand, Bip01 R Hand"
    ),
    "vrm": (
        "J_Bip_C_Hips, J_Bip_L_UpperLeg, J_Bip_R_UpperLeg, J_Bip_C_Spine, J_Bip_L_LowerLeg, J_Bip_R_LowerLeg, "
        "J_Bip_C_Chest, J_Bip_L_Foot, J_Bip_R_Foot, J_Bip_C_UpperChest, J_Bip_L_ToeBase, J_Bip_R_ToeBase, "
        "J_Bip_C_Neck, J_Bip_L_Shoulder, J_Bip_R_Shoulder, J_Bip_C_Head, J_Bip_L_UpperArm, J_Bip_R_UpperArm, "
        "J_Bip_L_LowerArm, J_Bip_R_LowerArm, J_Bip_L_Hand, J_Bip_R_Hand"
    ),
    "optitrack": (
        "Skeleton 001:Hip, Skeleton 001:LThigh, Skeleton 001:RThigh, Skeleton 001:Ab, Skeleton 001:LShin, "
        "Skeleton 001:RShin, Skeleton 001:Chest, Skeleton 001:LFoot, Skeleton 001:RFoot, Skeleton 001:Chest2, "
        "Skeleton 001:LToe, Skeleton 001:RToe, Skeleton 001:Neck, Skeleton 001:LShoulder, Skeleton 001:RShoulder, "
        "Skeleton 001:Head, Skeleton 001:LUArm, Skeleton 001:RUArm, Skeleton 001:LFArm, Skeleton 001:RFArm, "
        "Skeleton 001:LHand, Skeleton 001:RHand"
    ),
    "bandai-namco": (
        "Hips, UpperLeg_L, UpperLeg_R, Spine, LowerLeg_L, LowerLeg_R, Chest, Foot_L, Foot_R, Chest2, Toes_L, "
        "Toes_R, Neck, Shoulder_L, Shoulder_R, Head, UpperArm_L, UpperArm_R, LowerArm_L, LowerArm_R, Hand_L, Hand_R"
    ),
    "blender": (
        "root, upper_leg.L, upper_leg.R, spine, lower_leg.L, lower_leg.R, spine.001, foot.L, foot.R, spine.002, "
        "toe.L, toe.R, neck, shoulder.L, shoulder.R, head, upper_arm.L, upper_arm.R, forearm.L, forearm.R, hand.L, "
        "hand.R"
    ),
    "makehuman": (
        "root, upperleg01.L, upperleg01.R, spine05, lowerleg01.L, lowerleg01.R, spine04, foot.L, foot.R, spine03, "
        "toe1-1.L, toe1-1.R, neck01, clavicle.L, clavicle.R, head, upperarm01.L, upperarm01.R, lowerarm01.L, "
        "lowerarm01.R, wrist.L, wrist.R"
    ),
    "arkit": (
        "hips_joint, left_upLeg_joint, right_upLeg_joint, spine_1_joint, left_leg_joint, right_leg_joint, "
        "spine_2_joint, left_foot_joint, right_foot_joint, spine_3_joint, left_toes_joint, right_toes_joint, "
        "neck_1_joint, left_shoulder_1_joint, right_shoulder_1_joint, head_joint, left_arm_joint, right_arm_joint, "
        "left_forearm_joint, right_forearm_joint, left_hand_joint, right_hand_joint"
    ),
    "deepmotion": (
        "hips_JNT, l_upleg_JNT, r_upleg_JNT, spine_JNT, l_leg_JNT, r_leg_JNT, spine1_JNT, l_foot_JNT, r_foot_JNT, "
        "spine2_JNT, l_toebase_JNT, r_toebase_JNT, neck_JNT, l_shoulder_JNT, r_shoulder_JNT, head_JNT, l_arm_JNT, "
        "r_arm_JNT, l_forearm_JNT, r_forearm_JNT, l_hand_JNT, r_hand_JNT"
    ),
    "advanced-skeleton": (
        "Root_M, Hip_L, Hip_R, Spine1_M, Knee_L, Knee_R, Spine2_M, Ankle_L, Ankle_R, Chest_M, Toes_L, Toes_R, "
        "Neck_M, Scapula_L, Scapula_R, Head_M, Shoulder_L, Shoulder_R, Elbow_L, Elbow_R, Wrist_L, Wrist_R"
    ),
    "auto-rig-pro": (
        "root.x, thigh_stretch.l, thigh_stretch.r, spine_01.x, leg_stretch.l, leg_stretch.r, spine_02.x, foot.l, "
        "foot.r, spine_03.x, toes_01.l, toes_01.r, neck.x, shoulder.l, shoulder.r, head.x, arm_stretch.l, "
        "arm_stretch.r, forearm_stretch.l, forearm_stretch.r, hand.l, hand.r"
    ),
    "mmd": (
        "センター, 左足, 右足, 上半身, 左ひざ, 右ひざ, 上半身1, 左足首, 右足首, 上半身2, 左つま先, 右つま先, "
        "首, 左肩, 右肩, 頭, 左腕, 右腕, 左ひじ, 右ひじ, 左手首, 右手首"
    ),
    "mmd-tools": (
        "腰, 足.L, 足.R, 上半身, ひざ.L, ひざ.R, 上半身1, 足首.L, 足首.R, 上半身2, つま先.L, つま先.R, 首, "
        "肩.L, 肩.R, 頭, 腕.L, 腕.R, ひじ.L, ひじ.R, "
        "手首.L, 手首.R"
    ),
}
"""Names in the order of the 22-joint body (pelvis, hips, spine, knees, spine, ankles, spine, toes, neck, collars, head,
shoulders, elbows, wrists; left first)."""

_PREFIXES = {
    "character1": "Character1_",
    "mixamo": "mixamorig:",
    "mixamo-7": "mixamorig7_",
    "actor": "Actor01_",
    "perception-neuron": "Robot_",
}
"""What stands before the names of MotionBuilder."""

MOTIONBUILDER = _NAMES["motionbuilder"].split(", ")
_ALL = {name: text.split(", ") for name, text in _NAMES.items()}
_ALL |= {name: [prefix + joint for joint in MOTIONBUILDER] for name, prefix in _PREFIXES.items()}
_ALL["capitals"] = [joint.upper() for joint in MOTIONBUILDER]
RIGS = {name: (names, _MORE.get(name, {})) for name, names in _ALL.items()}
